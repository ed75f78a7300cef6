// The table of models: what each is, what it does, and why it is as it is.

import { evict, load } from "./actions.js";
import { askHold } from "./dialogs.js";
import { byId, el, fill, keyed, setAttribute, setText, show } from "./dom.js";
import { counted, size, span, wholeSpan } from "./format.js";
import { chosen, FILTERS, stuck } from "./models_sort.js";
import { said } from "./reasons.js";
import { modelHref } from "./router.js";
import { known, mayAct, since, watch } from "./store.js";

const COLUMNS = [["name", "Model"], ["state", "State"], ["why", "Why"], ["memory", "Memory"], ["requests", "Requests"],
  ["idle", "Last use"], ["retry", "Next try"], ["residency", "Residency"]];
const choice = { text: "", filter: "all", by: "state", down: false };

/** Begin to show it. */
export function mountModels() {
  const parts = build();
  fill(byId("models"), parts.tools, parts.scroll, parts.none);
  watch(["status", "who"], () => known.status && render(parts));
  watch(["now"], () => parts.shown.forEach((model, index) => updateTimes(parts.body.children[index], model)));
}

function build() {
  const search = el("input", { type: "search", id: "models-search", placeholder: "name, alias, engine, reason", spellcheck: "false",
    oninput: (event) => choose({ text: event.target.value }) });
  const filter = el("select", { id: "models-filter", onchange: (event) => choose({ filter: event.target.value }) },
    ...Object.entries(FILTERS).map(([key, [label]]) => el("option", { value: key }, label)));
  const order = el("select", { id: "models-order", onchange: (event) => choose({ by: event.target.value, down: false }) },
    ...COLUMNS.map(([key, label]) => el("option", { value: key }, label)));
  const count = el("span", { class: "faint", role: "status" });
  const choices = [["Find", search], ["Show", filter], ["Sort by", order]];
  const tools = el("div", { class: "toolbar" }, ...choices.map(([label, field]) =>
    el("span", { class: field === order ? "narrow-only" : null }, el("label", { for: field.id }, label), field)), count);
  const heads = COLUMNS.map(([key, label]) => el("th", { scope: "col", role: "columnheader" },
    el("button", { type: "button", onclick: () => choose({ by: key, down: choice.by === key && !choice.down }) }, label)));
  const body = el("tbody", { role: "rowgroup" });
  // On narrow screens rows become cards, which takes the roles of a table away unless they are said.
  const table = el("table", { class: "models", role: "table", "aria-labelledby": "models-title" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads, el("th", { scope: "col", role: "columnheader", class: "acts" }, "Actions"))), body);
  const scroll = el("div", { class: "models-scroll" }, table);
  const none = el("p", { class: "faint" });
  const parts = { tools, scroll, table, body, heads, none, count, order, filter, shown: [] };
  function choose(change) {
    Object.assign(choice, change);
    if (known.status) render(parts);
  }
  return parts;
}

function render(parts) {
  const all = known.status.models;
  const models = chosen(all, choice);
  parts.heads.forEach((head, i) =>
    setAttribute(head, "aria-sort", COLUMNS[i][0] === choice.by ? (choice.down ? "descending" : "ascending") : null));
  if (parts.order.value !== choice.by) parts.order.value = choice.by;
  const options = [...parts.filter.options];
  Object.values(FILTERS).forEach(([label, wants], i) => setText(options[i], `${label} (${all.filter(wants).length})`));
  parts.shown = models;
  keyed(parts.body, models, (model) => model.name, makeRow, updateRow);
  setAttribute(parts.table, "data-acts", mayAct() ? "yes" : null);
  show(parts.table, models.length);
  show(parts.none, models.length === 0);
  setText(parts.none, all.length ? "No model is like that." : "The manifest has no models.");
  setText(parts.count, models.length === all.length ? counted(all.length, "model") : `${models.length} of ${counted(all.length, "model")}`);
}

function makeRow(model) {
  const name = model.name;
  const cell = (label, ...children) => el("td", { role: "cell", "data-label": label }, ...children);
  const load_ = el("button", { type: "button", "aria-label": `Load ${name}`, onclick: (e) => load(name, e.currentTarget) }, "Load");
  const evict_ = el("button", { type: "button", "aria-label": `Evict ${name}`, onclick: (e) => evict(name, e.currentTarget) }, "Evict");
  const hold_ = el("button", { type: "button", "aria-label": `Hold ${name}`, onclick: () => askHold(name) }, "Hold…");
  return el("tr", { role: "row" },
    el("th", { scope: "row", role: "rowheader" }, el("a", { href: modelHref(name) }, name), " ", el("small", { class: "faint" })),
    cell("State", el("span", { class: "state" })),
    cell("Why", el("span", { class: "why" }), " ", el("small", { class: "faint" })),
    cell("Memory"), cell("Requests"), cell("Last use"), cell("Next try"), cell("Residency"),
    el("td", { role: "cell", class: "acts" }, load_, evict_, hold_));
}

function updateRow(row, model) {
  const [name, state, reason, memory, requests, idle, retry, residency, acts] = row.children;
  setText(name.lastChild, [model.engine, model.role, ...model.aliases.map((a) => `also ${a}`)].filter(Boolean).join(" · "));
  setAttribute(state.firstChild, "data-state", model.state);
  setAttribute(state.firstChild, "data-stuck", stuck(model) ? "yes" : null);
  setText(state.firstChild, model.state);
  const [head, more] = said(model.verdict);
  setText(reason.firstChild, head);
  setText(reason.lastChild, more);
  setAttribute(reason, "title", model.verdict?.reason ?? null);
  setText(memory, memoryText(model));
  setText(requests, requestsText(model));
  setText(residency, model.residency ? `${model.residency.replace("_", " ")}, ${model.priority}` : "not in the manifest");
  updateTimes(row, model);
  for (const cell of [requests, idle, retry]) setAttribute(cell, "data-empty", cell.textContent === "–" ? "yes" : null);
  const resident = model.state === "ready" || model.state === "loading" || model.state === "evicting";
  offer(acts, [!resident, resident && model.residency !== "pinned", model.residency !== null]);
}

/** What counts on by itself. */
function updateTimes(row, model) {
  setText(row.children[5], lastUseText(model) || "–");
  setText(row.children[6], retryText(model) || "–");
}

/** Show some of the buttons; the focus of one that goes is passed to one that stays. */
export function offer(acts, shown) {
  const focused = [...acts.children].indexOf(document.activeElement);
  [...acts.children].forEach((button, i) => show(button, shown[i]));
  if (focused >= 0 && !shown[focused]) acts.children[shown.indexOf(true)]?.focus({ preventScroll: true });
}

/** What it holds, or would need. */
export function memoryText(model) {
  if (model.held === null) return "unknown";
  if (model.held > 0) return size(model.held);
  return model.size === null ? "unknown" : `needs ${size(model.size)}`;
}

/** When it was used last, or ""; one that has served nothing since it was loaded was not used. */
export function lastUseText(model) {
  if (model.active || model.gated || model.jobs || model.leases) return "now";
  return model.idle === null || !model.served ? "" : `${wholeSpan(model.idle + since())} ago`;
}

/** When it is tried again, or "". */
export function retryText(model) {
  if (model.retry_in === null) return "";
  const left = model.retry_in - since();
  return left > 0 ? `in ${wholeSpan(Math.ceil(left))}` : "due";
}

/** Who uses it or waits for it. */
export function requestsText(model) {
  const parts = [];
  if (model.active) parts.push(`${model.active} served`);
  if (model.waiting) parts.push(`${model.waiting} waiting${model.oldest_wait === null ? "" : `, ${span(model.oldest_wait)}`}`);
  if (model.gated) parts.push(`${model.gated} at a gate`);
  if (model.jobs) parts.push(counted(model.jobs, "job"));
  if (model.leases) parts.push(counted(model.leases, "lease"));
  return parts.join(", ") || "–";
}
