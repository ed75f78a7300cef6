// Asks for the budget again whenever something that it depends on has changed: no more often than every two seconds.

import { ApiFailure, get } from "./api.js";
import { known, set, watch } from "./store.js";

const EVERY = 2;

let seen = "";
let asked = -Infinity;

/** Begin to follow. */
export function followBudget() {
  watch(["status", "now"], refresh);
}

async function refresh() {
  if (!known.status || known.now - asked < EVERY) return;
  const { memory, manifest, models } = known.status;
  const now = JSON.stringify([manifest.digest, memory.held, memory.reserved, memory.total, models.map((m) => m.state)]);
  if (now === seen) return;
  asked = known.now;
  try {
    set({ budget: await get("/api/v1/budget") });
    seen = now;
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error; // the next turn asks again
  }
}
