// The memory account as two lines on one scale: what is measured, and what is charged. Pure: documents in, shapes out.

import { counted, percent, size } from "./format.js";

/**
 * @typedef {object} Stretch
 * @property {string} key
 * @property {string} kind   what it is drawn as: weights, context, other, promised, mapped, held, small, others …
 * @property {string} label
 * @property {string} title  what it says when it is pointed at
 * @property {string} model  "" for what is no model's
 * @property {number} hue    of its model
 * @property {number} from   bytes
 * @property {number} bytes
 *
 * @typedef {object} Line
 * @property {string} name
 * @property {number} scale  bytes from one end to the other
 * @property {Stretch[]} stretches
 *
 * @typedef {object} Picture
 * @property {Line[]} lines  measured and charged, on one scale
 * @property {Line | null} enlarged  the charges and the budget alone, where these are a small part of the machine
 * @property {{key: string, label: string, at: number, level: string}[]} marks
 * @property {number} over   bytes by which the charges pass the budget
 */

/** A model whose stretch would be narrower than this share of the line is shown with the other small ones. */
const SMALL = 0.006;
/** A budget below this share of the machine is shown a second time, enlarged. */
const ENLARGED = 0.5;
/** Turns the colour from one model to the next, so that neighbours differ. */
const GOLDEN_ANGLE = 137.508;

/** @returns {Picture | null} null where nothing is known of the memory */
export function picture(status, budget) {
  const memory = status.memory;
  const hues = new Map(status.models.map((model, index) => [model.name, (index * GOLDEN_ANGLE + 250) % 360]));
  const charges = charged(status, budget);
  const sum = charges.reduce((total, charge) => total + charge.bytes, 0);
  const own = Math.max(memory.budget ?? 0, sum);
  const scale = Math.max(memory.total ?? 0, own);
  if (scale === 0) return null;
  const line = (name, to, stretches) => ({ name, scale: to, stretches: labelled(stretches) });
  const charge = (name, to) => line(name, to, chargedLine(memory, budget, charges, hues, to));
  return {
    lines: [line("measured", scale, measuredLine(status, hues, scale)), charge("charged", scale)],
    enlarged: own > 0 && own < scale * ENLARGED ? charge("enlarged", own) : null,
    marks: marks(memory, budget, scale),
    over: memory.budget === null ? 0 : Math.max(0, sum - memory.budget),
  };
}

/** Models in memory with what they are charged, a file that several map counted once. */
function charged(status, budget) {
  const inMemory = new Map(status.models.filter(isIn).map((model) => [model.name, model]));
  const parts = new Map((budget?.models ?? []).map((model) => [model.name, model.bytes]));
  const stretches = budget?.bar?.models ?? status.models.map((m) => ({ name: m.name, bytes: m.size ?? 0 }));
  return stretches
    .filter(({ name }) => inMemory.has(name))
    .map(({ name, bytes }) => ({ name, bytes, parts: parts.get(name), model: inMemory.get(name) }));
}

/** Whether a model holds memory, or is promised some. */
export function isIn(model) {
  return (model.held ?? 1) > 0 || model.memory.reserved > 0 || ["ready", "loading", "evicting"].includes(model.state);
}

function measuredLine(status, hues, scale) {
  const { memory, models } = status;
  const seen = memory.breakdown;
  const place = placer();
  // Two models may map the same file, which is in memory once.
  const warm = models.reduce((sum, model) => sum + (model.memory.warm ?? 0), 0);
  const once = seen && warm > seen.warm ? seen.warm / warm : 1;
  const out = [];
  let small = { count: 0, bytes: 0 };
  for (const model of models) {
    const own = model.memory.committed ?? 0;
    const mapped = (model.memory.warm ?? 0) * once;
    if (own + mapped === 0) continue;
    if ((own + mapped) / scale < SMALL) {
      small = { count: small.count + 1, bytes: small.bytes + own + mapped };
      continue;
    }
    const of = { model: model.name, hue: hues.get(model.name), label: model.name };
    const title = `${model.name}: ${size(own)} only it can give back, ${size(model.memory.warm ?? 0)} mapped weights`;
    if (own) out.push(place({ ...of, key: `${model.name}/held`, kind: "held", title }, own));
    if (mapped) out.push(place({ ...of, key: `${model.name}/mapped`, kind: "mapped", title }, mapped));
  }
  if (small.count) out.push(place(smallOnes(small), small.bytes));
  for (const [kind, label, bytes] of system(memory, seen, out)) {
    if (bytes > 0) out.push(place({ key: kind, kind, label, title: `${label}: ${size(bytes)}` }, bytes));
  }
  return out;
}

/** Who else holds memory, and what is free. Mapped weights are available as well: they are shown with the models. */
function system(memory, seen, models) {
  const ours = models.reduce((sum, stretch) => sum + stretch.bytes, 0);
  if (!seen) {
    if (memory.total === null || memory.available === null) return [];
    return [["others", "everything else", memory.total - memory.available - ours], ["free", "available", memory.available]];
  }
  const named = seen.others + seen.kernel + seen.pools + seen.unattributed;
  return [
    ["others", "other programs", seen.others],
    ["kernel", "kernel", seen.kernel],
    ["pools", "huge pages", seen.pools],
    ["unattributed", "unattributed", seen.unattributed],
    ["free", "available", seen.total - named - ours],
  ];
}

function chargedLine(memory, budget, charges, hues, scale) {
  const place = placer();
  const out = [];
  let small = { count: 0, bytes: 0 };
  for (const charge of charges) {
    if (charge.bytes / scale < SMALL) small = { count: small.count + 1, bytes: small.bytes + charge.bytes };
    else out.push(...split(charge).map(([kind, bytes]) => place(named(charge, kind, hues), bytes)));
  }
  if (small.count) out.push(place(smallOnes(small), small.bytes));
  const sum = charges.reduce((total, { bytes }) => total + bytes, 0);
  const limit = memory.budget ?? sum;
  const room = Math.max(0, Math.min(memory.free ?? 0, limit - sum));
  const reserve = Math.min(budget?.machine?.reserve ?? 0, Math.max(0, scale - limit));
  const rest = [
    ["room", "free for models", room],
    ["taken", "not free now", limit - sum - room],
    ["reserve", "kept for the system", Math.min(reserve, scale - Math.max(limit, sum))],
    ["outside", "not for models", scale - Math.max(limit, sum) - reserve],
  ];
  for (const [kind, label, bytes] of rest) {
    if (bytes > 0) out.push(place({ key: kind, kind, label, title: `${label}: ${size(bytes)}` }, bytes));
  }
  if (sum > limit) out.push({ key: "over", kind: "over", label: "", title: "", model: "", hue: 0, from: limit, bytes: sum - limit });
  return out;
}

function named(charge, kind, hues) {
  const name = charge.name;
  const of = { model: name, hue: hues.get(name), label: name };
  return { ...of, key: `${name}/${kind}`, kind, title: `${name}: ${size(charge.bytes)} charged; ${wordsOf(charge)}` };
}

/** What of a charge is weights, KV cache and the rest, and what of it is not held yet. */
export function split({ bytes, parts, model }) {
  const promised = Math.min(bytes, model.memory.reserved);
  let left = bytes - promised;
  const out = [];
  for (const [kind, wanted] of [["weights", parts?.weights], ["context", parts?.context]]) {
    const taken = Math.min(left, wanted ?? 0);
    if (taken > 0) out.push([kind, taken]);
    left -= taken;
  }
  if (left > 0) out.push([parts?.weights ? "other" : "whole", left]);
  if (promised > 0) out.push(["promised", promised]);
  return out;
}

const WORDS = { weights: "weights", context: "KV cache", other: "other", whole: "not divided", promised: "promised" };

function wordsOf(charge) {
  return split(charge)
    .map(([kind, bytes]) => `${size(Math.round(bytes))} ${WORDS[kind]}`)
    .join(", ");
}

function smallOnes({ count, bytes }) {
  const label = counted(count, "smaller model");
  return { key: "small", kind: "small", label, title: `${label}: ${size(bytes)}` };
}

/** Write the name of each model once, over all its stretches. */
function labelled(stretches) {
  const captions = new Map();
  for (const { model, label, hue, from, bytes } of stretches.filter((s) => s.model)) {
    const begun = captions.get(model) ?? { key: `${model}/caption`, kind: "caption", title: "", label, model, hue, from, bytes: 0 };
    captions.set(model, { ...begun, bytes: begun.bytes + bytes });
  }
  return [...stretches.map((s) => (s.model ? { ...s, label: "" } : s)), ...captions.values()];
}

function placer() {
  let from = 0;
  return (stretch, bytes) => {
    const made = { model: "", hue: 0, ...stretch, from, bytes };
    from += bytes;
    return made;
  };
}

/** The watermarks and the budget, from the left; marks at the same place share one. */
function marks(memory, budget, scale) {
  const machine = budget?.machine;
  const at = new Map();
  for (const level of ["target", "soft", "hard", "critical"]) {
    const bytes = machine?.[level] ?? null;
    if (bytes !== null && machine.total) at.set(bytes, [...(at.get(bytes) ?? []), level]);
  }
  const found = [...at].map(([bytes, levels]) => ({
    key: levels.join(),
    label: `${levels.join(", ")} ${percent(bytes / machine.total)}`,
    at: bytes / scale,
    level: levels[levels.length - 1],
  }));
  if (memory.budget !== null) {
    found.push({ key: "budget", label: `budget ${size(memory.budget)}`, at: memory.budget / scale, level: "budget" });
  }
  return found.sort((a, b) => a.at - b.at);
}

/** Pixels a character of a mark's label takes, at most. */
const CHARACTER = 6.6;

/**
 * Give each mark's label a row below the bars in which it meets no other; the last ones stand left of their marks.
 * @param {{label: string, at: number}[]} all from the left
 * @param {number} width of the bars, in pixels
 */
export function rowsFor(all, width) {
  /** @type {number[][][]} */
  const rows = [];
  return all.map(({ label, at }) => {
    const long = label.length * CHARACTER + 8;
    const before = at * width + long > width;
    const from = before ? at * width - long : at * width;
    const free = (row) => row.every(([begin, end]) => from >= end || from + long <= begin);
    let index = rows.findIndex(free);
    if (index < 0) index = rows.push([]) - 1;
    rows[index].push([from, from + long]);
    return { row: index, before };
  });
}

/** The account in a sentence or three. */
export function sentence(status, over) {
  const memory = status.memory;
  if (memory.budget === null) return `The memory is not known: ${memory.source}.`;
  const charges = (memory.held ?? 0) + memory.reserved;
  let text = `Models are charged ${size(charges)} of ${size(memory.budget)}`;
  if (memory.reserved) text += ` (${size(memory.reserved)} of it for the load in progress)`;
  text += over > 0 ? `, ${size(over)} too much.` : `; ${size(memory.free)} can be loaded without evicting anyone.`;
  const taken = memory.budget - charges - (memory.free ?? memory.budget);
  if (taken > memory.budget / 100) text += ` The other ${size(taken)} are not free now: others use them, or a watermark would be passed.`;
  if (memory.pressure.used !== null) text += ` The machine uses ${percent(memory.pressure.used)} of ${size(memory.total)}.`;
  return text;
}
