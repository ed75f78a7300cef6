// What only a model's own page needs: asked for while it is shown, and no longer.

import { ApiFailure, get, modelPath } from "./api.js";
import { known, watch } from "./store.js";

/** Seconds between two looks: at the log, and at the rest. */
const LOG_EVERY = 3;
const EVERY = 10;
const LINES = 300;

export const modelData = {
  /** @type {any} */ detail: null,
  /** @type {any} */ advice: null,
  /** @type {{lines: string[], path: string, truncated: boolean, error?: string} | null} */ log: null,
  /** Have `render` called whenever any of it is new. */
  follow(/** @type {() => void} */ render) {
    watch(["route"], () => {
      Object.assign(modelData, { detail: null, advice: null, log: null });
      times.log = times.rest = -Infinity;
      newest = lastEvent();
      render();
      refresh(render);
    });
    watch(["now", "link", "events"], () => refresh(render));
  },
};

const times = { log: -Infinity, rest: -Infinity };
/** Id of the newest event of this model that was taken into account. */
let newest = 0;

function lastEvent() {
  return known.events.filter((event) => event.model === known.route).pop()?.id ?? 0;
}

async function refresh(render) {
  const name = known.route;
  if (!name || !["live", "polling"].includes(known.link.state)) return;
  if (lastEvent() !== newest) {
    newest = lastEvent();
    times.rest = -Infinity;
  }
  const asks = [];
  if (known.now - times.log >= LOG_EVERY) {
    times.log = known.now;
    asks.push(asked(name, "log", modelPath(name, `/log?lines=${LINES}`)));
  }
  if (known.now - times.rest >= EVERY) {
    times.rest = known.now;
    asks.push(asked(name, "detail", modelPath(name)), asked(name, "advice", modelPath(name, "/advice")));
  }
  if (asks.length && (await Promise.all(asks)).some(Boolean)) render();
}

/** Ask for one part; what came for a page that was left meanwhile is dropped. */
async function asked(name, part, path) {
  let found;
  try {
    found = await get(path);
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    if (error.status === 0) return false; // out of reach: what is known stays
    found = part === "log" ? { lines: [], path: "", truncated: false, error: error.message } : null;
  }
  if (known.route !== name) return false;
  modelData[part] = found;
  return true;
}
