// Speaks to /api/v1, with the key if there is one.

import { key } from "./key.js";

/** Seconds an answer may take. */
const PATIENCE = 15;

/** An answer that is an error, or none at all (`status` 0). */
export class ApiFailure extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The path of a model's resource; its name may hold anything. */
export function modelPath(/** @type {string} */ name, /** @type {string} */ rest = "") {
  return `/api/v1/models/${encodeURIComponent(name)}${rest}`;
}

/** @returns {Promise<any>} */
export function get(/** @type {string} */ path) {
  return asked("GET", path);
}

/** @returns {Promise<any>} */
export function post(/** @type {string} */ path, /** @type {any} */ body = undefined) {
  return asked("POST", path, body);
}

/** @returns {Promise<any>} */
export function remove(/** @type {string} */ path) {
  return asked("DELETE", path);
}

async function asked(method, path, body) {
  const response = await send(method, path, {
    signal: AbortSignal.timeout(PATIENCE * 1000),
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
  });
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new ApiFailure(0, "broken", "the answer broke off");
  }
}

/**
 * Open a stream of events. The caller reads its body.
 * @param {string} path
 * @param {AbortSignal} signal
 */
export function open(path, signal) {
  return send("GET", path, { signal, headers: { Accept: "text/event-stream" } });
}

async function send(method, path, { headers = {}, ...options }) {
  const secret = key();
  const sent = secret ? { ...headers, Authorization: `Bearer ${secret}` } : headers;
  let response;
  try {
    response = await fetch(path, { method, headers: sent, cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    const slow = error instanceof DOMException && error.name === "TimeoutError";
    throw new ApiFailure(0, slow ? "timeout" : "unreachable", slow ? "no answer came" : "reconcile does not answer");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  const error = said?.error ?? {};
  throw new ApiFailure(response.status, error.code ?? "", error.message ?? `the answer was ${response.status}`);
}
