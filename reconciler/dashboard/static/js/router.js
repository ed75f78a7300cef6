// Which page is shown: `#/` is the overview, `#/models/NAME` a model's.

import { byId, show } from "./dom.js";
import { known, set } from "./store.js";

const MODEL = "#/models/";

/** The address of a model's page. */
export function modelHref(/** @type {string} */ name) {
  return MODEL + encodeURIComponent(name);
}

/** Begin to follow the address. */
export function mountRouter() {
  window.addEventListener("hashchange", () => follow(true));
  follow(false);
}

function follow(moved) {
  const route = named(location.hash);
  if (route === known.route && moved) return;
  show(byId("overview"), !route);
  show(byId("model"), route);
  document.title = route ? `${route} – reconcile` : "reconcile";
  set({ route });
  if (moved) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
}

function named(hash) {
  if (!hash.startsWith(MODEL)) return "";
  try {
    return decodeURIComponent(hash.slice(MODEL.length));
  } catch {
    return ""; // half an escape: typed by hand
  }
}
