// The top line: which manifest, whether what is shown is fresh, the theme, and the key.

import { byId, setAttribute, setText, show } from "./dom.js";
import { wholeSpan } from "./format.js";
import { keep, key } from "./key.js";
import { refresh } from "./live.js";
import { known, since, watch } from "./store.js";

const THEMES = ["auto", "light", "dark"];

/** Begin to show it. */
export function mountHeader() {
  byId("theme-button").addEventListener("click", nextTheme);
  setText(byId("theme-button"), `Theme: ${theme()}`);
  byId("key-button").addEventListener("click", () => {
    keep("");
    refresh(); // without a key one is asked for
  });
  watch(["status"], renderOrigin);
  watch(["link", "now", "at"], renderLink);
  watch(["who", "link"], renderKey);
}

function renderOrigin() {
  const { manifest, version } = known.status;
  const git = manifest.git ? `, git ${manifest.git.commit}${manifest.git.dirty ? "+dirty" : ""}` : "";
  setText(byId("origin"), `${version} · ${manifest.path}, generation ${manifest.generation}${git}`);
}

function renderLink() {
  const node = byId("link");
  const { state, text } = known.link;
  const stale = !["live", "polling"].includes(state);
  setAttribute(node, "data-state", state);
  setAttribute(document.body, "data-stale", stale && known.status ? "yes" : null);
  const words = state === "key" ? "a key is needed" : text;
  setText(node.lastElementChild, words);
  // The age changes each second: shown, and not read out each second.
  setAttribute(node, "title", known.status ? `as of ${wholeSpan(since())} ago` : "nothing was seen yet");
}

function renderKey() {
  const button = byId("key-button");
  const wanted = known.link.state === "key";
  show(button, wanted || key());
  setText(button, wanted ? "Enter a key" : known.who?.key ? `Forget the key of ${known.who.key}` : "Forget the key");
}

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("reconcile.theme");
    else localStorage.setItem("reconcile.theme", next);
  } catch {
    // Storage is forbidden here: the choice holds until the page is left.
  }
  setText(byId("theme-button"), `Theme: ${next}`);
}
