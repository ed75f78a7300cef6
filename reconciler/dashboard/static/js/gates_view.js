// What stands before the models: gates that let so many compute at once, and names behind which several stand.

import { byId, el, fill, keyed, setText, show } from "./dom.js";
import { listed } from "./format.js";
import { known, watch } from "./store.js";

/** Begin to show it. */
export function mountGates() {
  const list = el("dl", { class: "facts" });
  fill(byId("gates"), list);
  watch(["status"], () => {
    const rows = [...known.status.gates.map(gate), ...known.status.virtual.map(virtual)];
    show(list, rows.length);
    keyed(list, rows, ([label]) => label, ([label]) => el("div", {}, el("dt", {}, label), el("dd")), (node, [, text]) => setText(node.lastChild, text));
  });
}

function gate({ name, limit, inside, waiting }) {
  const who = inside.length ? ` (${listed(inside)})` : "";
  return [`Gate ${name}`, `${inside.length} of ${limit} compute${who}${waiting ? `, ${waiting} waiting` : ""}`];
}

function virtual({ name, models }) {
  return [`Virtual ${name}`, `one of ${listed(models)}`];
}
