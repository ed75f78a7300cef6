// What a person may ask for. Each button says what came of it; the status shows the rest.

import { ApiFailure, modelPath, post, remove } from "./api.js";
import { refresh } from "./live.js";
import { toast } from "./toasts.js";

/** Ask for a model as a request would. */
export function load(/** @type {string} */ name, /** @type {HTMLElement} */ button) {
  return acted(button, () => post(modelPath(name, "/load")), `${name}: its load was asked for`);
}

/** Ask for a model to go once its requests are done. */
export function evict(/** @type {string} */ name, /** @type {HTMLElement} */ button) {
  return acted(button, () => post(modelPath(name, "/evict")), `${name}: it was asked to go`);
}

/** Keep a model in memory for so many seconds. */
export function hold(/** @type {string} */ name, /** @type {number} */ seconds, /** @type {HTMLElement} */ button) {
  const body = { model: name, owner: "dashboard", seconds };
  const done = (lease) => (lease.state === "held" ? `${name}: it is held` : `${name}: it is held as soon as it is loaded`);
  return acted(button, () => post("/api/v1/leases", body), done);
}

/** End a lease. */
export function release(lease, /** @type {HTMLElement} */ button) {
  const asked = () => remove(`/api/v1/leases/${encodeURIComponent(lease.id)}`);
  return acted(button, asked, `${lease.model}: the lease of ${lease.owner || "nobody"} was ended`);
}

/** Leave safe mode. */
export function resume(/** @type {HTMLElement} */ button) {
  return acted(button, () => post("/api/v1/resume"), "safe mode is left");
}

/**
 * @param {HTMLElement} button
 * @param {() => Promise<any>} ask
 * @param {string | ((answer: any) => string)} done what is said then
 * @returns {Promise<boolean>} whether it was accepted
 */
async function acted(button, ask, done) {
  if (button.getAttribute("aria-disabled") === "true") return false;
  // Not `disabled`: that would take the focus away from whoever pressed it.
  button.setAttribute("aria-disabled", "true");
  try {
    const answer = await ask();
    toast(typeof done === "string" ? done : done(answer), "good");
    return true;
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    toast(error.message, "bad");
    if (error.status === 401) refresh();
    return false;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}
