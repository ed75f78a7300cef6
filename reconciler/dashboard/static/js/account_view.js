// Draws the account, and writes it out as a table.

import { isIn, picture, rowsFor, sentence, split } from "./account.js";
import { byId, el, fill, keyed, setAttribute, setStyle, setText, show } from "./dom.js";
import { size } from "./format.js";
import { known, watch } from "./store.js";
import { modelHref } from "./router.js";

/** Pixels a label needs at least, and those that a character of it takes. */
const LABELLED = 40;
const CHARACTER = 7;
const LINES = { measured: "Measured", charged: "Charged", enlarged: "Budget" };
const KEYS = [
  ["weights", "weights"],
  ["context", "KV cache"],
  ["other", "other"],
  ["promised", "promised, not held yet"],
  ["mapped", "mapped weights"],
  ["others", "other programs"],
  ["kernel", "kernel"],
  ["unattributed", "unattributed"],
  ["reserve", "kept for the system"],
  ["room", "free"],
  ["taken", "in the budget, not free now (others, or a mark)"],
];
const COLUMNS = ["Model", "Weights", "KV cache", "Other", "Promised", "Charged", "Measured", "Most ever"];

/** Begin to show it. */
export function mountAccount() {
  const parts = build();
  fill(byId("account"), parts.root);
  watch(["status", "budget"], () => known.status && render(parts));
  new ResizeObserver(() => known.status && render(parts)).observe(parts.marks);
}

function build() {
  const text = el("p", { class: "lead" });
  const lines = el("div", { class: "lines" });
  const marks = el("div", { class: "marks" });
  const enlarged = el("div", { class: "lines" });
  const drawing = el("div", { role: "img" }, el("div", { class: "drawing" }, lines, marks), enlarged);
  const legend = el("ul", { class: "legend" }, ...KEYS.map(([kind, label]) =>
    el("li", {}, el("span", { class: `swatch kind-${kind}`, "aria-hidden": "true" }), label)));
  const body = el("tbody");
  const foot = el("tbody", { class: "sums" });
  const table = el("table", { class: "figures" },
    el("caption", { class: "hidden" }, "The memory account in figures"),
    el("thead", {}, el("tr", {}, ...COLUMNS.map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name)))),
    body);
  const rest = el("table", { class: "figures" },
    el("caption", { class: "hidden" }, "The machine"), foot);
  const scroll = { class: "scroll", tabindex: "0", role: "region" };
  const details = el("details", {}, el("summary", {}, "In figures"),
    el("div", { ...scroll, "aria-label": "Memory of models" }, table),
    el("div", { ...scroll, "aria-label": "Memory of the machine" }, rest));
  return { root: el("div", {}, text, drawing, legend, details), text, drawing, lines, marks, enlarged, legend, details, body, foot };
}

function render(parts) {
  const made = picture(known.status, known.budget);
  const said = sentence(known.status, made?.over ?? 0);
  setText(parts.text, said);
  show(parts.drawing, made);
  show(parts.legend, made);
  if (made) draw(parts, made, said);
  tabulate(parts);
}

function draw(parts, made, said) {
  setAttribute(parts.drawing, "aria-label", `${said} The same in figures follows below.`);
  for (const [where, lines] of [[parts.lines, made.lines], [parts.enlarged, made.enlarged ? [made.enlarged] : []]]) {
    keyed(where, lines, (line) => line.name, makeLine, (node, line) =>
      keyed(node.lastChild, line.stretches, (s) => s.key, makeStretch, (n, s) => place(n, s, line.scale, parts.marks.clientWidth)));
  }
  const rows = rowsFor(made.marks, parts.marks.clientWidth);
  setStyle(parts.drawing.firstChild, "--rows", String(Math.max(0, ...rows.map(({ row }) => row + 1))));
  keyed(parts.marks, made.marks, (mark) => mark.key, () => el("span", { class: "mark" }, el("span")), (node, mark, i) => {
    setStyle(node, "left", `${(mark.at * 100).toFixed(2)}%`);
    setStyle(node, "--row", String(rows[i].row));
    setAttribute(node, "data-level", mark.level);
    setAttribute(node, "data-before", rows[i].before ? "yes" : null);
    setText(node.firstChild, mark.label);
  });
}

function makeLine(line) {
  return el("div", { class: "line" }, el("span", { class: "line-name" }, LINES[line.name]), el("div", { class: "bar" }));
}

function makeStretch(stretch) {
  const node = el("div", { class: `${stretch.kind === "caption" ? "" : "stretch "}kind-${stretch.kind}` }, el("span"));
  if (stretch.kind === "caption") return node;
  if (stretch.model) node.addEventListener("click", () => (location.hash = modelHref(stretch.model)));
  return node;
}

function place(node, stretch, scale, width) {
  const share = stretch.bytes / scale;
  setStyle(node, "left", `${((stretch.from / scale) * 100).toFixed(3)}%`);
  setStyle(node, "width", `${(share * 100).toFixed(3)}%`);
  setStyle(node, "--hue", String(Math.round(stretch.hue)));
  setAttribute(node, "title", stretch.title);
  setText(node.firstChild, fits(stretch, share * width) ? stretch.label : "");
}

/** A model's name may be cut; what else there is stands in the legend as well. */
function fits(stretch, width) {
  return width >= (stretch.model ? LABELLED : stretch.label.length * CHARACTER + 10);
}

function tabulate(parts) {
  const { status, budget } = known;
  const charges = new Map((budget?.bar?.models ?? []).map((m) => [m.name, m.bytes]));
  const bytes = new Map((budget?.models ?? []).map((m) => [m.name, m.bytes]));
  const models = status.models.filter(isIn);
  keyed(parts.body, models, (m) => m.name, makeRow, (row, model) => {
    const charge = charges.get(model.name) ?? model.size ?? 0;
    const kinds = new Map(split({ bytes: charge, parts: bytes.get(model.name), model }));
    const other = (kinds.get("other") ?? 0) + (kinds.get("whole") ?? 0);
    const cells = [kinds.get("weights"), kinds.get("context"), other, kinds.get("promised"), charge, model.held, model.memory.peak];
    cells.forEach((count, i) => setText(row.children[i + 1], count === null ? "unknown" : count ? size(Math.round(count)) : "–"));
  });
  keyed(parts.foot, sums(status, budget), ([label]) => label, ([label]) =>
    el("tr", {}, el("th", { scope: "row" }, label), el("td", { class: "number" })), (row, [, text]) => setText(row.children[1], text));
}

function makeRow(model) {
  return el("tr", {}, el("th", { scope: "row" }, el("a", { href: modelHref(model.name) }, model.name)),
    ...COLUMNS.slice(1).map(() => el("td", { class: "number" })));
}

function sums({ memory }, budget) {
  const seen = memory.breakdown;
  const machine = budget?.machine;
  const found = [
    ["Budget of models", memory.budget], ["Charged to loaded models", memory.held], ["Reserved for a load", memory.reserved],
    ["Free for models", memory.free], ["Kept for the system (reserve)", machine?.reserve],
    ["Machine", memory.total], ["Available", memory.available], ["Mapped weights, available too", seen?.warm],
    ["Measured of models, besides mapped weights", seen?.models], ["Other programs", seen?.others], ["Kernel", seen?.kernel],
    ["Huge pages", seen?.pools], ["Unattributed", seen?.unattributed], ["Swap in use", memory.swap_used],
    ["Target mark", machine?.target], ["Soft mark", machine?.soft], ["Hard mark", machine?.hard], ["Critical mark", machine?.critical],
  ];
  return found.filter(([, bytes]) => bytes !== undefined).map(([label, bytes]) => [label, size(bytes)]);
}
