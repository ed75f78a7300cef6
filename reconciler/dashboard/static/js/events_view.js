// What happened, the newest first, of one model or one kind if asked so.

import { ApiFailure, get } from "./api.js";
import { byId, el, fill, keyed, setAttribute, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { modelHref } from "./router.js";
import { known, watch } from "./store.js";

const SHOWN = 100;
/** Bad news, as in what `reconcile events` paints red. */
const BAD = new Set(["load-failed", "wake-failed", "restore-failed", "crashed", "hung", "safe-mode", "evicted-then-wanted", "state-lost"]);

const choice = { model: "", kind: "" };
/** What the ledger has for the choice; null = what is kept here is enough. */
let older = null;
let most = SHOWN;

/** Begin to show it. */
export function mountEvents() {
  const parts = build();
  fill(byId("events"), parts.tools, parts.list, parts.none, parts.more);
  watch(["events", "status"], () => render(parts));
}

function build() {
  const select = (id, field) => el("select", { id, onchange: (event) => choose({ [field]: event.target.value }) });
  const model = select("events-model", "model");
  const kind = select("events-kind", "kind");
  const list = el("ol", { class: "events", role: "list", tabindex: "0", "aria-label": "Events, newest first" });
  const none = el("p", { class: "faint" });
  const more = el("button", { type: "button", onclick: () => { most += SHOWN; render(parts); } }, "Show more");
  const tools = el("div", { class: "toolbar" }, el("span", {}, el("label", { for: "events-model" }, "Model"), model), el("span", {}, el("label", { for: "events-kind" }, "Kind"), kind));
  const parts = { tools, model, kind, list, none, more };
  async function choose(change) {
    Object.assign(choice, change);
    older = null;
    most = SHOWN;
    render(parts);
    await fetchOlder();
    render(parts);
  }
  return parts;
}

/** Events of the choice that are older than those kept here. */
async function fetchOlder() {
  if (!choice.model && !choice.kind) return;
  const query = new URLSearchParams({ limit: "300" });
  if (choice.model) query.set("model", choice.model);
  if (choice.kind) query.set("kind", choice.kind);
  const wanted = JSON.stringify(choice);
  try {
    const page = await get(`/api/v1/events?${query}`);
    if (wanted === JSON.stringify(choice)) older = page.events;
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error; // what is kept here is shown
  }
}

function render(parts) {
  const have = new Map([...(older ?? []), ...known.events].map((event) => [event.id, event]));
  const fitting = [...have.values()]
    .filter((e) => (!choice.model || e.model === choice.model) && (!choice.kind || e.kind === choice.kind))
    .sort((a, b) => b.id - a.id);
  offer(parts.model, [...new Set([...(known.status?.models ?? []).map((m) => m.name), ...known.events.map((e) => e.model).filter(Boolean)])], choice.model);
  offer(parts.kind, [...new Set(known.events.map((e) => e.kind))], choice.kind);
  keyed(parts.list, fitting.slice(0, most), (e) => e.id, makeEvent);
  show(parts.list, fitting.length);
  show(parts.none, fitting.length === 0);
  setText(parts.none, known.events.length ? "There are none like that." : "Nothing has happened yet.");
  show(parts.more, fitting.length > most);
}

function offer(select, values, chosen) {
  const wanted = ["", ...values.sort()];
  if (chosen && !wanted.includes(chosen)) wanted.push(chosen);
  keyed(select, wanted, (value) => value, (value) => el("option", { value }, value || "all"));
  if (select.value !== chosen) select.value = chosen;
}

/** One event as a line. */
export function makeEvent(event) {
  const kind = el("span", { class: "kind" }, event.kind);
  setAttribute(kind, "data-bad", BAD.has(event.kind) || event.reason === "Refused" ? "yes" : null);
  return el("li", {}, el("time", { datetime: new Date(event.at * 1000).toISOString() }, clock(event.at)), kind,
    event.model ? el("a", { href: modelHref(event.model) }, event.model) : el("span"),
    el("span", { class: "message" }, event.reason ? el("b", {}, event.reason, " ") : null, event.message));
}
