// Which models are shown, and in which order. Pure.

import { hopeless, why } from "./reasons.js";

/** States in the order in which somebody looks for them. */
export const STATES = ["loading", "evicting", "failing", "blocked", "ready", "asleep", "cold"];

/** Whether somebody has to do something before a model that is cold can be loaded. */
export function stuck(model) {
  return model.state === "cold" && hopeless(model.verdict);
}

/** Trouble stands before what is well. */
function rank(model) {
  return STATES.indexOf(stuck(model) ? "blocked" : model.state);
}

/** What the columns are sorted by; undefined comes last. */
const KEYS = {
  name: (m) => m.name,
  state: rank,
  residency: (m) => -(m.priority ?? -1),
  memory: (m) => -(m.held || m.size || 0),
  requests: (m) => -(m.active + m.waiting + m.gated + m.leases + m.jobs),
  idle: (m) => (m.served || m.active ? m.idle ?? undefined : undefined),
  retry: (m) => m.retry_in ?? undefined,
  why: (m) => why(m.verdict),
};

/** Choices of the filter: what it is called, and whom it shows. */
export const FILTERS = {
  all: ["All", () => true],
  in: ["In memory", (m) => ["ready", "loading", "evicting"].includes(m.state)],
  out: ["Not in memory", (m) => !["ready", "loading", "evicting"].includes(m.state)],
  wanted: ["In use or waited for", (m) => m.active + m.waiting + m.gated + m.leases + m.jobs > 0],
  trouble: ["In trouble", (m) => ["failing", "blocked"].includes(m.state) || stuck(m) || m.failures > 0 || m.health?.suspect || m.health?.hung],
};

/**
 * @param {any[]} models
 * @param {{text: string, filter: string, by: string, down: boolean}} choice
 */
export function chosen(models, choice) {
  const wants = FILTERS[choice.filter][1];
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = models.filter((model) => {
    const text = [model.name, ...model.aliases, model.engine, model.role, model.state, model.residency, why(model.verdict)].join(" ").toLowerCase();
    return wants(model) && words.every((word) => text.includes(word));
  });
  const keyOf = KEYS[choice.by];
  const sign = choice.down ? -1 : 1;
  return found
    .map((model) => ({ model, key: keyOf(model) }))
    .sort((a, b) => compared(a.key, b.key, sign) || (a.model.name < b.model.name ? -1 : 1))
    .map(({ model }) => model);
}

function compared(a, b, sign) {
  if (a === b) return 0;
  if (a === undefined) return 1;
  if (b === undefined) return -1;
  return a < b ? -sign : sign;
}
