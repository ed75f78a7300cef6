// The newest events, each once and in order, however they came.

import { known, set } from "./store.js";

/** So many are kept. */
export const KEPT = 500;

/** @param {{id: number}[]} found */
export function addEvents(found) {
  const have = new Set(known.events.map((event) => event.id));
  const news = found.filter((event) => !have.has(event.id));
  if (news.length === 0) return;
  const all = [...known.events, ...news].sort((a, b) => a.id - b.id);
  set({ events: all.slice(-KEPT) });
}
