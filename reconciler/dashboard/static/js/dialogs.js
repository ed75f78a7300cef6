// Two questions: for how long a model is to be held, and for the key.

import { hold } from "./actions.js";
import { el, setText } from "./dom.js";
import { keep } from "./key.js";
import { refresh } from "./live.js";
import { known, watch } from "./store.js";

const TIMES = [[600, "10 minutes"], [1800, "30 minutes"], [3600, "1 hour"], [14400, "4 hours"], [43200, "12 hours"], [86400, "24 hours"]];

let dialogs = 0;

/** Ask for how long, then hold. */
export function askHold(/** @type {string} */ name) {
  const select = el("select", { id: "hold-for" }, ...TIMES.map(([seconds, text]) => el("option", { value: seconds }, text)));
  select.value = "1800";
  const dialog = asking(`Hold ${name}`, [
    el("p", {}, "While it is held it is in memory, and makes room for nobody."),
    el("label", { for: "hold-for" }, "For"), select,
  ], "Hold", async (button) => {
    if (await hold(name, Number(select.value), button)) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

/** Ask for the key whenever it is needed. */
export function mountKeyDialog() {
  const field = el("input", { id: "key-field", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const told = el("p", { class: "told", role: "status" });
  const dialog = asking("An API key is needed", [
    told,
    el("label", { for: "key-field" }, "Key"), field,
    el("p", { class: "faint" }, "It is kept for this tab only. Reading needs the scope read; the buttons need admin."),
  ], "Use it", () => {
    if (!field.value.trim()) return;
    keep(field.value.trim());
    field.value = "";
    refresh();
  });
  watch(["link"], () => {
    if (known.link.state !== "key") {
      if (dialog.open && known.link.state !== "offline") dialog.close();
      return;
    }
    setText(told, known.link.text);
    if (!dialog.open) dialog.showModal();
  });
}

function asking(title, content, yes, answered) {
  const id = `dialog-title-${++dialogs}`;
  const button = el("button", { type: "submit", class: "primary" }, yes);
  const form = el("form", { method: "dialog" }, el("h2", { id }, title), ...content,
    el("p", { class: "buttons" }, button, el("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answered(button);
  });
  const dialog = el("dialog", { "aria-labelledby": id }, form);
  document.body.append(dialog);
  return dialog;
}
