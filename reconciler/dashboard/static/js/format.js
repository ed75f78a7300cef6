// Figures as the command line writes them, too; no line breaks between a number and its unit.

const SPACE = "\u00a0";

const UNITS = [
  [2 ** 40, "TiB", 1],
  [2 ** 30, "GiB", 1],
  [2 ** 20, "MiB", 0],
  [2 ** 10, "KiB", 0],
];

/** Bytes for people: `18.1 GiB`, `512 MiB`; `unknown` for null. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  for (const [unit, name, digits] of UNITS) {
    if (Math.abs(bytes) >= unit) return `${(bytes / unit).toFixed(digits)}${SPACE}${name}`;
  }
  return `${bytes}${SPACE}B`;
}

/** Seconds for people: `3.1 s`, `45 s`, `14 min`, `3 h`, `2 d`. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 10) return `${seconds.toFixed(1)}${SPACE}s`;
  if (seconds < 120) return `${Math.round(seconds)}${SPACE}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}${SPACE}min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}${SPACE}h`;
  return `${Math.floor(seconds / 86400)}${SPACE}d`;
}

/** The same in whole seconds, for what counts on while one looks. */
export function wholeSpan(seconds) {
  return seconds < 120 ? `${Math.max(0, Math.floor(seconds))}${SPACE}s` : span(seconds);
}

/** Seconds since 1970 as local time of day; with the day if it is not today's. */
export function clock(epoch) {
  const at = new Date(epoch * 1000);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ${time}`;
}

/** A share (0 to 1) in whole percent. */
export function percent(share) {
  return share === null || share === undefined ? "unknown" : `${Math.round(share * 100)}${SPACE}%`;
}

/** `1 request`, `2 requests`. */
export function counted(count, thing) {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

/** Names in a sentence: `a, b and 3 more`. */
export function listed(names, most = 4) {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}
