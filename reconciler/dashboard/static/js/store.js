// What is known, in one place. Whoever shows a part of it is told once per frame what has changed.

/**
 * @typedef {object} Known
 * @property {any} status    status.v1, or null before the first
 * @property {any} plan      plan.v1
 * @property {any} budget    budget.v1
 * @property {any} timeline  what /api/v1/timeline answers
 * @property {any[]} events  newest last
 * @property {{key: string | null, scopes: string[], open: boolean} | null} who
 * @property {{state: string, text: string}} link
 * @property {number} at     clock of this page, in seconds, at which `status` came
 * @property {number} seen   the same moment in seconds since 1970, for people
 * @property {number} now    the same clock, now; it turns once a second
 * @property {string} route  the model whose page is shown; "" = the overview
 */

/** @type {Known} */
export const known = {
  status: null,
  plan: null,
  budget: null,
  timeline: null,
  events: [],
  who: null,
  link: { state: "connecting", text: "connecting" },
  at: 0,
  seen: 0,
  now: clockNow(),
  route: "",
};

/** @type {{fields: (keyof Known)[], render: () => void}[]} */
const watchers = [];
/** @type {Set<keyof Known>} */
const changed = new Set();

/** Seconds on a clock that never jumps. */
export function clockNow() {
  return performance.now() / 1000;
}

/** Have `render` called after any of these fields has changed. */
export function watch(fields, render) {
  watchers.push({ fields, render });
}

/** Change some fields. What shows them follows before the next frame. */
export function set(/** @type {Partial<Known>} */ fields) {
  Object.assign(known, fields);
  if (changed.size === 0) requestAnimationFrame(tell);
  for (const name of Object.keys(fields)) changed.add(/** @type {keyof Known} */ (name));
}

function tell() {
  const fields = new Set(changed);
  changed.clear();
  for (const watcher of watchers) if (watcher.fields.some((field) => fields.has(field))) watcher.render();
}

/** Seconds that have passed since the status was made. */
export function since() {
  return known.status ? Math.max(0, known.now - known.at) : 0;
}

/** Whether whoever looks may change anything. */
export function mayAct() {
  return Boolean(known.who && (known.who.open || known.who.scopes.includes("admin")));
}
