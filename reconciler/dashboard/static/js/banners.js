// What somebody has to know before anything else.

import { resume } from "./actions.js";
import { byId, el, keyed, setText, show } from "./dom.js";
import { clock } from "./format.js";
import { known, mayAct, watch } from "./store.js";

/**
 * @typedef {object} Banner
 * @property {string} key
 * @property {"bad" | "warn" | "note"} level
 * @property {string} title
 * @property {string} text
 * @property {string[]} [lines]
 * @property {boolean} [resumes] whether leaving safe mode is offered
 */

/** Begin to show them. */
export function mountBanners() {
  watch(["status", "link", "who"], () =>
    keyed(byId("banners"), [...ofLink(), ...(known.status ? ofStatus(known.status) : [])], (b) => b.key, make, update));
}

/** @returns {Banner[]} */
function ofLink() {
  // No age: it would be read out each second.
  const age = known.status ? ` What is shown is of ${clock(known.seen)}.` : "";
  switch (known.link.state) {
    case "offline":
      return [{ key: "link", level: "bad", title: "Disconnected", text: `reconcile does not answer; trying again every 2 s.${age}` }];
    case "ended":
      return [{ key: "link", level: "warn", title: "reconcile has ended", text: `It is looked for every 2 s.${age}` }];
    default:
      return [];
  }
}

/** @returns {Banner[]} of the status alone */
export function ofStatus(status) {
  const conditions = new Map(status.conditions.map((c) => [c.type, c]));
  const found = [];
  const add = (key, level, title, text, more = {}) => found.push({ key, level, title, text, ...more });
  if (status.halted) add("halted", "bad", "Halted", `Nothing more is begun: ${status.halted}`);
  const { refused, generation } = status.manifest;
  if (refused.length) {
    const text = `Nothing changes for any model; generation ${generation} stays in force. What is wrong:`;
    add("refused", "bad", "The newest manifest was refused", text, { lines: refused });
  }
  const safe = conditions.get("SafeMode");
  if (safe) add("safe", "bad", "Safe mode", safe.message, { resumes: true });
  const degraded = conditions.get("Degraded");
  if (status.memory.budget === null) {
    const text = "Nothing is loaded and nobody is evicted until it can be read: ";
    add("memory", "bad", "The machine's memory is not known", text + (degraded?.message ?? status.memory.source));
  } else if (degraded) add("degraded", "warn", DEGRADED[degraded.reason] ?? "Degraded", degraded.message);
  const { level, cause, relieving } = status.memory.pressure;
  if (level !== "calm" || relieving) {
    const text = cause + (relieving ? "; models are evicted until it is below the target" : "; only what is pinned or waited for is loaded");
    add("pressure", level === "soft" ? "warn" : "bad", `Memory pressure: ${level === "calm" ? "relieving" : level}`, text);
  }
  if (status.manifest.warnings.length) {
    add("warnings", "note", "The manifest has warnings", "", { lines: status.manifest.warnings });
  }
  return found;
}

const DEGRADED = {
  LedgerUnwritable: "The ledger cannot be written",
  ProbeUnreadable: "A probe cannot be read",
  Unattributed: "Memory that nobody owns up to",
};

function make(/** @type {Banner} */ banner) {
  const button = banner.resumes
    ? el("button", { type: "button", onclick: (event) => resume(event.currentTarget) }, "Resume: load every model again")
    : null;
  return el("div", { class: `banner ${banner.level}` }, el("p", {}, el("strong"), " ", el("span")), el("ul", { class: "lines-of-text" }), button);
}

function update(node, banner) {
  node.className = `banner ${banner.level}`;
  const [title, , text] = node.firstChild.childNodes;
  setText(title, banner.title);
  setText(text, banner.text);
  const lines = banner.lines ?? [];
  keyed(node.children[1], lines, (line, index) => `${index} ${line}`, (line) => el("li", {}, line));
  show(node.children[1], lines.length);
  if (banner.resumes) show(node.lastChild, mayAct());
}
