// Draws the last hour: what was loaded and evicted when, and how full the machine was.

import { ApiFailure, get } from "./api.js";
import { byId, el, fill, keyed, setAttribute, setText, show, svg } from "./dom.js";
import { clock, percent, size, span } from "./format.js";
import { meaning } from "./reasons.js";
import { modelHref } from "./router.js";
import { known, set, watch } from "./store.js";
import { shapes, summary } from "./timeline.js";

const HEIGHT = 210;
/** Seconds between two looks at the ledger, and after something was done. */
const EVERY = 30;
const SOON = 1.5;
const ACTIONS = ["load", "loaded", "evict", "evicted", "asleep", "load-failed", "given-up", "crashed"];

let asked = -Infinity;
let newest = 0;
let soon = false;

/** Begin to show it. */
export function mountTimeline() {
  const parts = build();
  fill(byId("timeline"), parts.text, parts.drawing, parts.legend, parts.details);
  new ResizeObserver(() => render(parts)).observe(parts.drawing);
  parts.details.addEventListener("toggle", () => render(parts));
  watch(["timeline"], () => render(parts));
  watch(["now", "link", "events"], () => refresh());
}

async function refresh() {
  const last = known.events[known.events.length - 1];
  if (last && last.id !== newest) {
    soon ||= ACTIONS.includes(last.kind);
    newest = last.id;
  }
  const wait = soon ? SOON : EVERY;
  if (!["live", "polling"].includes(known.link.state) || known.now - asked < wait) return;
  asked = known.now;
  soon = false;
  try {
    set({ timeline: await get("/api/v1/timeline") });
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error; // the next look asks again
  }
}

function build() {
  const text = el("p", { class: "lead" });
  const layers = ["levels", "charged", "grid", "budget", "used", "marks"].map((name) => svg("g", { class: `layer-${name}` }));
  const drawing = el("div", { class: "drawing" });
  const picture = svg("svg", { role: "img", height: HEIGHT, class: "timeline" }, ...layers);
  drawing.append(picture);
  const legend = el("ul", { class: "legend" }, ...[["load", "load"], ["evict", "evict"], ["regretted", "evicted, and wanted again soon"], ["failed", "failed"],
    ["charged-area", "charged to models"], ["budget-line", "budget"], ["used-line", "machine in use, in %"], ["soft", "soft"], ["hard", "hard"], ["critical", "critical pressure"]]
    .map(([kind, label]) => el("li", {}, el("span", { class: `swatch time-${kind}`, "aria-hidden": "true" }), label)));
  const body = el("tbody");
  const table = el("table", { class: "figures" }, el("caption", { class: "hidden" }, "What was done in the last hour"),
    el("thead", {}, el("tr", {}, ...["Time", "What", "Model", "Took", "Why", "Outcome"].map((h) => el("th", { scope: "col" }, h)))), body);
  const details = el("details", {}, el("summary", {}, "As a list"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Actions of the last hour" }, table));
  return { text, drawing, picture, layers: Object.fromEntries(layers.map((l) => [l.getAttribute("class").slice(6), l])), legend, details, body };
}

function render(parts) {
  const timeline = known.timeline;
  show(parts.drawing, timeline);
  if (!timeline) return;
  const width = Math.max(280, parts.drawing.clientWidth);
  const made = shapes(timeline, width, HEIGHT);
  setAttribute(parts.picture, "viewBox", `0 0 ${width} ${HEIGHT}`);
  setAttribute(parts.picture, "width", width);
  const said = summary(timeline);
  setText(parts.text, said);
  setAttribute(parts.picture, "aria-label", `${said} The list below has each of them.`);
  draw(parts.layers, made);
  // Thousands of rows in an hour of a busy desk: only for who looks at them.
  if (parts.details.open) tabulate(parts.body, timeline.actions);
}

function draw(layers, made) {
  const { frame } = made;
  keyed(layers.levels, made.levels, (b, i) => `${i} ${b.level}`, (b) => svg("rect", { class: `time-${b.level}` }, svg("title")), (node, band) => {
    place(node, { x: band.x, y: frame.top, width: band.width, height: frame.bottom - frame.top });
    setText(node.firstChild, `${band.level} pressure from ${clock(band.from)} to ${clock(band.until)}`);
  });
  for (const name of ["used", "charged", "budget"]) {
    keyed(layers[name], [made[name]], () => name, () => svg("path"), (node, d) => setAttribute(node, "d", d));
  }
  const lines = [
    ...made.scale.map(({ bytes, y }) => ({ key: `y${y}`, x: 4, y: y + 4, text: size(bytes), line: `M ${frame.left} ${y} H ${frame.right}` })),
    ...made.scale.map(({ share, y }) => ({ key: `s${y}`, x: frame.right + 6, y: y + 4, text: percent(share) })),
    ...made.ticks.map(({ at, x }) => ({ key: `x${at}`, x, y: HEIGHT - 5, text: clock(at).slice(-8, -3), line: `M ${x} ${frame.top} V ${HEIGHT - 18}`, middle: true })),
    ...made.lanes.map(({ name, y }) => ({ key: name, x: 4, y: y + 2, text: name })),
  ];
  keyed(layers.grid, lines, (l) => l.key, () => svg("g", {}, svg("path"), svg("text")), (node, l) => {
    setAttribute(node.firstChild, "d", l.line ?? null);
    setAttribute(node.lastChild, "x", l.x);
    setAttribute(node.lastChild, "y", l.y);
    setAttribute(node.lastChild, "text-anchor", l.middle ? "middle" : null);
    setText(node.lastChild, l.text);
  });
  keyed(layers.marks, made.marks, (m) => m.key, () => svg("rect", { rx: 2 }, svg("title")), (node, mark) => {
    place(node, mark);
    setAttribute(node, "class", `time-${mark.kind}`);
    setText(node.firstChild, `${clock(mark.action.at)} ${sentence(mark.action)}`);
  });
}

function place(node, { x, y, width, height }) {
  for (const [name, value] of Object.entries({ x, y, width, height })) setAttribute(node, name, value.toFixed(1));
}

function sentence(action) {
  const whom = action.for_model ? ` for ${action.for_model}` : "";
  return `${action.action} ${action.model}: ${meaning(action.reason)}${whom}, ${span(action.seconds)}${action.regretted ? ", wanted again soon" : ""}`;
}

function tabulate(body, actions) {
  const rows = [...actions].reverse();
  keyed(body, rows, (a) => `${a.at} ${a.action} ${a.model}`, () => el("tr", {}, ...Array.from({ length: 6 }, () => el("td"))), (row, action) => {
    const whom = action.for_model ? ` for ${action.for_model}` : "";
    const outcome = [action.outcome, action.detail, action.regretted ? "wanted again soon" : ""].filter(Boolean).join("; ");
    const texts = [clock(action.at), action.action, null, span(action.seconds), meaning(action.reason) + whom, outcome];
    texts.forEach((text, i) => text !== null && setText(row.children[i], text));
    keyed(row.children[2], [action.model], (m) => m, (m) => el("a", { href: modelHref(m) }, m));
  });
}
