// The API key, where the manifest asks for one: kept for this tab only, and sent in a header only.

const NAME = "reconcile.key";
let current = read();

function read() {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // storage is forbidden here: the key is asked for at every visit
  }
}

/** The key, or "". */
export function key() {
  return current;
}

/** Keep a key; "" forgets it. */
export function keep(/** @type {string} */ value) {
  current = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // As above: it holds until the page is left.
  }
}
