// A model's memory by kind: what was estimated, what its engine says, what is measured.

import { el, keyed, setText, show } from "./dom.js";
import { size } from "./format.js";

const HEADS = ["Kind", "Estimated", "Said by the engine", "Measured"];

export function memoryPart() {
  const body = el("tbody");
  const none = el("p", { class: "faint" }, "Nothing is known of it before it is loaded once.");
  const table = el("table", { class: "figures" }, el("caption", { class: "hidden" }, "Memory by kind"),
    el("thead", {}, el("tr", {}, ...HEADS.map((head, i) => el("th", { scope: "col", class: i ? "number" : null }, head)))), body);
  const root = el("section", { class: "card", "aria-labelledby": "model-memory-title" }, el("h2", { id: "model-memory-title" }, "Memory"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Memory by kind" }, table), none);
  return {
    root,
    render(model) {
      show(root, model);
      if (!model) return;
      const rows = kinds(model);
      show(none, rows.length === 0);
      show(table, rows.length);
      keyed(body, rows, ([label]) => label, ([label]) =>
        el("tr", {}, el("th", { scope: "row" }, label), ...HEADS.slice(1).map(() => el("td", { class: "number" }))), (row, [, ...cells]) =>
        cells.forEach((bytes, i) => setText(row.children[i + 1], bytes === undefined ? "" : bytes === null ? "–" : size(bytes))));
    },
  };
}

/** Rows of label, estimated, said, measured; undefined where there is no such figure. */
function kinds(model) {
  const { estimate, said, committed, warm, device, releasable, reserved, peak } = model.memory;
  const here = (bytes) => (model.held === 0 ? undefined : bytes);
  const rows = [
    ["Weights", estimate?.weights, said?.weights, undefined],
    ["KV cache", estimate?.context, said?.context, undefined],
    ["Compute buffers", estimate?.compute, said?.compute, undefined],
    ["Prompt cache", estimate?.cache || undefined, undefined, undefined],
    ["Server itself", estimate?.overhead, undefined, undefined],
    ["Its own, freed when it ends", undefined, undefined, here(committed)],
    ["Mapped weights", undefined, undefined, here(warm)],
    ["Of this with GPU drivers", undefined, undefined, device || undefined],
    ["Together", estimate?.steady, undefined, here(model.held)],
    ["While it loads", estimate?.peak, undefined, undefined],
    ["Most ever measured", undefined, undefined, peak || undefined],
    ["Freed by an eviction", undefined, undefined, releasable || undefined],
    ["Promised, not held yet", reserved || undefined, undefined, undefined],
    ["Charged", model.size, undefined, undefined],
  ];
  return rows.filter(([, ...cells]) => cells.some((cell) => cell !== undefined && cell !== null));
}
