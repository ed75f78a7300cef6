// Building and changing the page. Text becomes text only: names, reasons and log lines are other people's.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an HTML element. Attributes that are null or false are left out; `on…` are listeners.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttribute(node, name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child || child === 0).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

/** Set an attribute if it differs; null, undefined and false take it away. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Set the text of an element if it differs. */
export function setText(node, text) {
  const value = String(text ?? "");
  if (node.textContent !== value) node.textContent = value;
}

/** Set a style property if it differs; the policy of the page forbids style attributes, and allows this. */
export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

/** Show or hide an element. */
export function show(node, shown) {
  if (node.hidden === Boolean(shown)) node.hidden = !shown;
}

/** @type {WeakMap<Node, Map<any, any>>} */
const kept = new WeakMap();

/**
 * Make the children of `parent` those of `items`, in their order, and touch only what differs.
 * @template T
 * @param {Element} parent holds nothing else
 * @param {T[]} items
 * @param {(item: T, index: number) => any} keyOf unique
 * @param {(item: T) => any} make
 * @param {(node: any, item: T, index: number) => void} [update] called for new ones, too
 */
export function keyed(parent, items, keyOf, make, update = () => {}) {
  const before = kept.get(parent) ?? new Map();
  const now = new Map();
  items.forEach((item, index) => {
    const key = keyOf(item, index);
    const node = before.get(key) ?? make(item);
    now.set(key, node);
    update(node, item, index);
  });
  for (const [key, node] of before) if (now.get(key) !== node) node.remove();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let place = parent.firstChild;
  for (const node of now.values()) {
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  kept.set(parent, now);
  // A row that moved has lost the focus it had.
  if (focused instanceof HTMLElement && focused.isConnected && document.activeElement !== focused) {
    focused.focus({ preventScroll: true });
  }
}

/** Replace all children. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child || child === 0));
}

/** The element with this id, which the page has. */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
