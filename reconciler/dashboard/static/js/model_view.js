// A model's own page: what it is, what it holds, why it is as it is, what was, and what its engine says.

import { evict, load, release } from "./actions.js";
import { askHold } from "./dialogs.js";
import { byId, el, fill, keyed, setAttribute, setText, show } from "./dom.js";
import { span, wholeSpan } from "./format.js";
import { modelData } from "./model_data.js";
import { historyPart } from "./model_history.js";
import { launchPart } from "./model_launch.js";
import { logPart } from "./model_log.js";
import { memoryPart } from "./model_memory.js";
import { stuck } from "./models_sort.js";
import { lastUseText, memoryText, offer, requestsText, retryText } from "./models_view.js";
import { why } from "./reasons.js";
import { known, mayAct, since, watch } from "./store.js";

/** Begin to show it where the address asks for it. */
export function mountModel() {
  const parts = build();
  fill(byId("model"), parts.root);
  watch(["route", "status", "who", "now"], () => {
    if (!known.route) return;
    renderTop(parts);
    parts.memory.render(found(), modelData.detail);
  });
  modelData.follow(() => {
    parts.memory.render(found(), modelData.detail);
    renderAdvice(parts);
    parts.launch.render(modelData.detail);
    parts.history.render(modelData.detail);
    parts.log.render(modelData.log);
  });
}

function found() {
  return known.status?.models.find((model) => model.name === known.route) ?? null;
}

function build() {
  const title = el("h1");
  const state = el("span", { class: "state" });
  const button = (text, act) => el("button", { type: "button", onclick: (event) => act(event.currentTarget) }, text);
  const acts = el("div", { class: "acts" }, button("Load", (b) => load(known.route, b)), button("Evict", (b) => evict(known.route, b)),
    button("Hold…", () => askHold(known.route)));
  const reason = el("p", { class: "why-large" });
  const facts = el("dl", { class: "facts" });
  const notes = el("ul", { class: "notes" });
  const leases = el("ul", { class: "leases" });
  const gone = el("p", { class: "faint" });
  const top = el("section", { class: "card", "aria-label": "State" }, reason, acts, facts, notes, leases);
  const advice = el("ul", { class: "helps" });
  const worth = el("p", { class: "faint" });
  const adviceCard = el("section", { class: "card", "aria-labelledby": "advice-title" }, el("h2", { id: "advice-title" }, "What would help"), worth, advice);
  const [memory, launch, history, log] = [memoryPart(), launchPart(), historyPart(), logPart()];
  const root = el("div", { class: "model-page" }, el("p", {}, el("a", { href: "#/" }, "← All models")),
    el("div", { class: "title" }, title, state), gone, top,
    el("div", { class: "halves" }, memory.root, adviceCard), history.root, launch.root, log.root);
  return { root, title, state, acts, reason, facts, notes, leases, gone, top, advice, worth, adviceCard, memory, launch, history, log };
}

function renderTop(parts) {
  const model = found();
  setText(parts.title, known.route);
  show(parts.top, model);
  show(parts.state, model);
  show(parts.gone, !model && known.status);
  setText(parts.gone, "No model has this name; what is shown below is what is left of it.");
  if (!model) return;
  setText(parts.state, model.state);
  setAttribute(parts.state, "data-state", model.state);
  setAttribute(parts.state, "data-stuck", stuck(model) ? "yes" : null);
  setText(parts.reason, why(model.verdict));
  const resident = ["ready", "loading", "evicting"].includes(model.state);
  show(parts.acts, mayAct());
  offer(parts.acts, [!resident, resident && model.residency !== "pinned", model.residency !== null]);
  keyed(parts.facts, facts(model), ([label]) => label, ([label]) => el("div", {}, el("dt", {}, label), el("dd")), (node, [, text]) => setText(node.lastChild, text));
  keyed(parts.notes, notes(model), (note) => note, (note) => el("li", {}, note));
  renderLeases(parts.leases, model);
}

function facts(model) {
  const all = [
    ["Reason", model.verdict?.reason],
    ["Memory", memoryText(model)],
    ["Requests", requestsText(model)],
    ["Served since it was loaded", model.served],
    ["Last use", lastUseText(model)],
    ["Next try", retryText(model)],
    ["Residency", model.residency?.replace("_", " ") ?? "not in the manifest"],
    ["Priority", model.priority],
    ["Engine", [model.engine, model.role].filter(Boolean).join(", ")],
    ["Aliases", model.aliases.join(", ")],
    ["Process", model.pid ? `pid ${model.pid}, port ${model.port}` : ""],
    ["Last load took", model.load_seconds === null ? "" : span(model.load_seconds)],
    ["Failed starts in a row", model.failures || ""],
    ["Last error", why(model.verdict).includes(model.last_error) ? "" : model.last_error],
  ];
  return all.filter(([, value]) => value !== "" && value !== null && value !== undefined);
}

function notes(model) {
  // That it fails, and why, is said already.
  const bad = model.conditions.filter((c) => c.status === "True" && !["Ready", "Progressing"].includes(c.type) && c.reason !== "Failing");
  const health = model.health?.hung || model.health?.suspect;
  return [...new Set([...bad.map((c) => c.message), ...(health ? [health] : []), ...model.notes])];
}

function renderLeases(list, model) {
  const mine = known.status.leases.filter((lease) => lease.model === model.name && lease.state !== "ended");
  show(list, mine.length);
  keyed(list, mine, (lease) => lease.id, (lease) =>
    el("li", {}, el("span"), " ", el("button", { type: "button", "aria-label": `Release the lease of ${lease.owner || "nobody"}`,
      onclick: (event) => release(lease, event.currentTarget) }, "Release")), (node, lease) => {
    const what = lease.state === "held" ? "Held" : "To be held";
    setText(node.firstChild, `${what} for ${lease.owner || "nobody named"}, ends in ${wholeSpan(lease.ends_in - since())}`);
    show(node.lastChild, mayAct());
  });
}

function renderAdvice(parts) {
  const advice = modelData.advice;
  show(parts.adviceCard, advice);
  if (!advice) return;
  const changes = advice.changes.map((change) => `It would be loaded ${change.text}`);
  const going = advice.fits ? advice.goes.map((g) => `${g.model} would go first (${g.detail})`) : [];
  const texts = [...going, ...changes, ...advice.rivalries.map((r) => r.text)];
  const none = advice.fits ? "Nothing has to be changed for it." : "No single change would let it in: what is said above has to be put right.";
  keyed(parts.advice, texts.length ? texts : [none], (text) => text, (text) => el("li", {}, text));
  const { worth } = advice;
  show(parts.worth, worth);
  if (!worth) return;
  const place = worth.rank === null ? "" : ` It is number ${worth.rank} of ${worth.of} to give way.`;
  const spares = worth.seconds > 0 ? `Kept in memory it is expected to save ${span(worth.seconds)} of waiting` : "Nobody is expected to ask for it soon";
  setText(parts.worth, `${spares}; to load it takes ${span(worth.return_seconds)}.${place}`);
}
