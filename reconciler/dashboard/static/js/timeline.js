// The last hour as shapes: memory over time, the pressure behind it, and a lane of what was done. Pure.

import { counted } from "./format.js";

/** The lanes below the curves, from above. */
export const LANES = ["load", "evict"];
const LANE = 18;
const LEFT = 62;
const RIGHT = 46;
/** Seconds the drawing covers at least. */
const SHORTEST = 300;
const AXIS = 20;
const TOP = 8;

/**
 * Two scales: bytes at the left, for what models are charged; the share of the machine in use at the right.
 * @param {any} timeline what /api/v1/timeline answers
 * @param {number} width of the drawing
 * @param {number} height
 */
export function shapes(timeline, width, height) {
  const { to, samples, actions } = timeline;
  const from = begin(timeline);
  const bottom = height - AXIS - LANES.length * LANE;
  const top = Math.max(...samples.flatMap((s) => [s.budget ?? 0, (s.held ?? 0) + s.reserved]), 1) * 1.1;
  const right = width - RIGHT;
  const x = (at) => LEFT + ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * (right - LEFT);
  const at = (share) => bottom - Math.min(share, 1) * (bottom - TOP);
  const y = (bytes) => at(bytes / top);
  return {
    frame: { left: LEFT, right, top: TOP, bottom },
    charged: area(runs(samples, to, x, y, (s) => (s.held === null ? null : s.held + s.reserved)), bottom),
    used: line(runs(samples, to, x, at, (s) => s.used)),
    budget: line(runs(samples, to, x, y, (s) => s.budget)),
    levels: bands(samples, x, to),
    marks: actions.map((action, index) => mark(action, index, x, bottom)),
    ticks: ticks(from, to).map((tick) => ({ at: tick, x: x(tick) })),
    scale: [0, 0.5, 1].map((share) => ({ share, bytes: Math.round(top * share), y: at(share) })),
    lanes: LANES.map((name, i) => ({ name, y: bottom + i * LANE + LANE / 2 + 6 })),
  };
}

/** Where the drawing begins: an hour ago, or a little before the first thing that is known of a shorter time. */
function begin({ since, to, samples, actions }) {
  const first = Math.min(...[...samples, ...actions].map(({ at }) => at), to);
  const short = Math.max((to - first) * 1.1, SHORTEST);
  return Math.max(since, to - short);
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

/** What was done, counted. A reload is two actions: an eviction, and the load in its place. */
export function summary({ actions }) {
  const count = (name) => actions.filter((a) => a.action === name).length;
  const reloads = count("reload") / 2; // one is two actions
  const regretted = actions.filter((a) => a.regretted).length;
  const lost = actions.filter(failed).length;
  if (!actions.length) return "Nothing was loaded or evicted.";
  const more = [reloads && counted(Math.ceil(reloads), "reload"), regretted && `${regretted} of the evictions regretted`, lost && `${lost} failed`].filter(Boolean);
  return `${counted(count("load"), "load")}, ${counted(count("evict"), "eviction")}${more.length ? `; ${more.join(", ")}` : ""}.`;
}

/** Round times between two, five to eight of them. */
function ticks(from, to) {
  const steps = [60, 120, 300, 600, 900, 1800, 3600];
  const step = steps.find((s) => (to - from) / s <= 8) ?? 7200;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
