// Short messages about what was just asked for; errors stay until they are put away.

import { byId, el } from "./dom.js";

const SECONDS = 6;
const MOST = 4;

/** @param {string} text @param {"good" | "bad"} level */
export function toast(text, level) {
  const close = el("button", { type: "button", "aria-label": "Put this message away", onclick: () => node.remove() }, "×");
  const node = el("div", { class: `toast ${level}`, role: level === "bad" ? "alert" : "status" }, el("span", {}, text), close);
  const all = byId("toasts");
  all.append(node);
  while (all.children.length > MOST) all.firstElementChild?.remove();
  if (level === "good") setTimeout(() => node.remove(), SECONDS * 1000);
}
