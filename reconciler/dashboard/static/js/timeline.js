// The last hour as shapes: memory over time, the pressure behind it, and a lane of what was done. Pure.

/** The lanes below the curves, from above. */
export const LANES = ["load", "evict"];
const LANE = 18;
const LEFT = 56;
const AXIS = 20;
const TOP = 8;

/**
 * @param {any} timeline what /api/v1/timeline answers
 * @param {number} total bytes of the machine, for readings that are shares of it
 * @param {number} width of the drawing
 * @param {number} height
 */
export function shapes(timeline, total, width, height) {
  const { since: from, to, samples, actions } = timeline;
  const lanes = LANES.length * LANE;
  const bottom = height - AXIS - lanes;
  const top = Math.max(total, ...samples.flatMap((s) => [s.budget ?? 0, (s.held ?? 0) + s.reserved]), 1);
  const x = (at) => LEFT + ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * (width - LEFT - 8);
  const y = (bytes) => bottom - (Math.min(bytes, top) / top) * (bottom - TOP);
  const frame = { left: LEFT, right: width - 8, top: TOP, bottom };
  return {
    frame,
    used: area(runs(samples, to, x, y, (s) => (s.used === null ? null : s.used * top)), bottom),
    charged: area(runs(samples, to, x, y, (s) => (s.held === null ? null : s.held + s.reserved)), bottom),
    budget: line(runs(samples, to, x, y, (s) => s.budget)),
    levels: bands(samples, x, to),
    marks: actions.map((action, index) => mark(action, index, x, bottom)),
    ticks: ticks(from, to).map((at) => ({ at, x: x(at) })),
    scale: [0, 0.5, 1].map((share) => ({ bytes: top * share, y: y(top * share) })),
    lanes: LANES.map((name, i) => ({ name, y: bottom + i * LANE + LANE / 2 + 6 })),
  };
}

/** Stairs, for a sample holds until the next; they break where the value is not known. */
function runs(samples, to, x, y, value) {
  const found = [];
  let open = false;
  samples.forEach((sample, i) => {
    const bytes = value(sample);
    if (bytes === null) {
      open = false;
      return;
    }
    if (!open) found.push([]);
    open = true;
    const until = samples[i + 1]?.at ?? to;
    found[found.length - 1].push([x(sample.at), y(bytes)], [x(until), y(bytes)]);
  });
  return found;
}

const written = (points) => points.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join(" L ");

function line(all) {
  return all.map((run) => `M ${written(run)}`).join(" ");
}

function area(all, bottom) {
  return all
    .map((run) => `M ${run[0][0].toFixed(1)} ${bottom} L ${written(run)} L ${run[run.length - 1][0].toFixed(1)} ${bottom} Z`)
    .join(" ");
}

/** Times in which memory was short, by level. */
function bands(samples, x, to) {
  const found = [];
  samples.forEach((sample, i) => {
    if (sample.level === "calm") return;
    const until = samples[i + 1]?.at ?? to;
    const before = found[found.length - 1];
    if (before && before.level === sample.level && before.until >= sample.at) before.until = until;
    else found.push({ level: sample.level, from: sample.at, until });
  });
  return found.map((band) => ({ ...band, x: x(band.from), width: Math.max(1, x(band.until) - x(band.from)) }));
}

function mark(action, index, x, bottom) {
  const lane = Math.max(0, LANES.indexOf(kindOf(action)));
  const begin = x(action.at);
  return {
    key: `${action.at} ${action.action} ${action.model} ${index}`,
    action,
    x: begin,
    y: bottom + lane * LANE + 6,
    width: Math.max(4, x(action.at + action.seconds) - begin),
    height: LANE - 6,
    kind: failed(action) ? "failed" : action.regretted ? "regretted" : kindOf(action),
  };
}

/** Whether an action puts a model into memory or takes one out. */
export function kindOf(action) {
  return action.action === "evict" ? "evict" : "load";
}

/** Whether it did not come to its end. */
export function failed(action) {
  return ["failed", "given-up"].includes(action.outcome);
}

/** Round times between two, five to eight of them. */
function ticks(from, to) {
  const steps = [60, 120, 300, 600, 900, 1800, 3600];
  const step = steps.find((s) => (to - from) / s <= 8) ?? 7200;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
