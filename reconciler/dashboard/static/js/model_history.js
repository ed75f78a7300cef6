// What became of a model: its loads and evictions, the regretted ones marked.

import { el, keyed, setAttribute, setText, show } from "./dom.js";
import { clock, counted, size, span } from "./format.js";
import { meaning } from "./reasons.js";

const SHOWN = 30;

export function historyPart() {
  const text = el("p", { class: "lead" });
  const body = el("tbody");
  const table = el("table", { class: "figures" }, el("caption", { class: "hidden" }, "Loads and evictions, newest first"),
    el("thead", {}, el("tr", {}, ...["Time", "What", "Why", "Took", "Outcome"].map((head) => el("th", { scope: "col" }, head)))), body);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Its loads and evictions" }, table);
  const root = el("section", { class: "card", "aria-labelledby": "history-title" }, el("h2", { id: "history-title" }, "Loads and evictions"), text, scroll);
  return {
    root,
    render(detail) {
      show(root, detail);
      if (!detail) return;
      const rows = all(detail);
      setText(text, summary(detail));
      show(scroll, rows.length);
      keyed(body, rows.slice(0, SHOWN), (row) => row.key, () => el("tr", {}, ...Array.from({ length: 5 }, () => el("td"))), (node, row) => {
        setAttribute(node, "data-bad", row.bad ? "yes" : null);
        row.cells.forEach((cell, i) => setText(node.children[i], cell));
      });
    },
  };
}

function all({ loads, evictions }) {
  const rows = [
    ...loads.map((load) => ({
      at: load.at, key: `load ${load.at}`, bad: load.outcome !== "ready",
      cells: [clock(load.at), load.kind === "wake" ? "woken" : "load", meaning(load.reason), span(load.seconds),
        [load.outcome, load.error, load.peak ? `held ${size(load.peak)}` : ""].filter(Boolean).join("; ")],
    })),
    ...evictions.map((gone) => ({
      at: gone.at, key: `evict ${gone.at}`, bad: gone.regretted,
      cells: [clock(gone.at), "evict", `${meaning(gone.reason)}${gone.for_model ? ` for ${gone.for_model}` : ""}`, span(gone.seconds),
        [gone.outcome, `it had been there ${span(gone.resident)}, idle ${span(gone.idle)}`,
          gone.regretted ? `regretted: wanted again after ${span(gone.wanted_after)}` : ""].filter(Boolean).join("; ")],
    })),
  ];
  return rows.sort((a, b) => b.at - a.at);
}

function summary({ loads, evictions, use }) {
  const rued = evictions.filter((gone) => gone.regretted).length;
  const past = loads.length || evictions.length
    ? `${counted(loads.length, "load")}, ${counted(evictions.length, "eviction")}, ${rued} of them regretted.`
    : "It was never loaded, as far as is known.";
  if (!use.requests) return `${past} No requests in 7 days.`;
  const cold = use.cold ? `, ${use.cold} of them while it was not there (they waited ${span(use.cold_seconds)} together)` : "";
  return `${past} ${counted(use.requests, "request")} in 7 days${cold}.`;
}
