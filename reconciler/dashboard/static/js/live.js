// Keeps what is known fresh: a stream; where there is none, a look every two seconds; and it says which.

import { ApiFailure, get, open } from "./api.js";
import { addEvents } from "./events_kept.js";
import { events } from "./sse.js";
import { clockNow, known, set } from "./store.js";

/** Seconds between two looks without a stream; so often a stream is tried again, too. */
const POLL = 2;
/** Seconds after which a stream that says nothing is given up: it promises a word every five. */
const SILENCE = 12;
const HOUR = 3600;
/** Seconds a page that nobody sees keeps its stream: a browser has few connections for one address. */
const UNSEEN = 30;

let wake = () => {};
let abort = new AbortController();
/** Nobody sees the page. */
let paused = false;
/** Somebody wants a new look, whatever is waited for. */
let again = false;

/** Look again at once: another key, or the page is seen again. */
export function refresh() {
  again = true;
  abort.abort();
  wake();
}

/** Begin, and never end. */
export async function follow() {
  watchVisibility();
  for (;;) {
    again = false;
    if (paused) {
      set({ link: { state: "paused", text: "paused" } });
      await waited(HOUR);
      continue;
    }
    abort = new AbortController();
    const entry = await tried();
    if (entry && !paused) await looked();
    if (!paused) await waited(known.link.state === "key" ? HOUR : POLL);
  }
}

/** Follow a stream to its end; return whether the key, if there is one, allows it. */
async function tried() {
  try {
    await Promise.all([streamed(), get("/api/v1/whoami").then((who) => set({ who }))]);
  } catch (error) {
    abort.abort(); // of the stream, where it was the other one
    if (error instanceof ApiFailure && noEntry(error)) {
      wantKey(error);
      return false;
    }
  }
  return true;
}

/** Whether a failure says that another key is needed. */
function noEntry(/** @type {ApiFailure} */ error) {
  return error.status === 401 || (error.status === 403 && error.code === "insufficient_scope");
}

function wantKey(/** @type {ApiFailure} */ error) {
  set({ link: { state: "key", text: error.message }, who: error.status === 401 ? null : known.who });
}

async function streamed() {
  const response = await open("/api/v1/stream", abort.signal);
  if (!response.body) return;
  set({ link: { state: "live", text: "live" } });
  getEvents();
  let silence = setTimeout(() => {}, 0);
  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(lost, SILENCE * 1000);
  };
  alive();
  try {
    for await (const { event, data } of events(response.body, alive)) take(event, data);
  } finally {
    clearTimeout(silence);
  }
}

/** Somebody who hangs takes connections and says nothing: that is told before the next question has run out of time. */
function lost() {
  set({ link: { state: "offline", text: "disconnected" } });
  abort.abort();
}

/** When what comes now was seen. */
function moment() {
  return { at: clockNow(), seen: Date.now() / 1000 };
}

function take(event, data) {
  if (event === "status") set({ status: JSON.parse(data), ...moment() });
  else if (event === "plan") set({ plan: JSON.parse(data) });
  else if (event === "event") addEvents([JSON.parse(data)]);
  else if (event === "end") set({ link: { state: "ended", text: "reconcile has ended" } });
}

/** One look without a stream. */
async function looked() {
  try {
    const [status, plan] = await Promise.all([get("/api/v1/status"), get("/api/v1/plan")]);
    set({ status, plan, ...moment(), link: { state: "polling", text: `every ${POLL} s` } });
    getEvents();
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    if (noEntry(error)) wantKey(error);
    else if (error.code === "starting") set({ link: { state: "connecting", text: "reconcile starts" } });
    else if (known.link.state !== "ended") set({ link: { state: "offline", text: "disconnected" } });
  }
}

function getEvents() {
  get("/api/v1/events?limit=300").then(
    (page) => addEvents(page.events),
    () => {}, // the ledger cannot be read just now: the next look asks again
  );
}

/** @returns {Promise<void>} */
function waited(/** @type {number} */ seconds) {
  return new Promise((done) => {
    if (again) return done();
    const timer = setTimeout(done, seconds * 1000);
    wake = () => {
      clearTimeout(timer);
      done();
    };
  });
}

function watchVisibility() {
  let timer = setTimeout(() => {}, 0);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        paused = true;
        refresh();
      }, UNSEEN * 1000);
    } else if (paused) {
      paused = false;
      refresh();
    }
  });
  window.addEventListener("online", () => refresh());
}
