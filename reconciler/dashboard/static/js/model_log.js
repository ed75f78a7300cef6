// The end of a model's log, following it as long as one looks at its end.

import { el, setText, show } from "./dom.js";

export function logPart() {
  const text = el("pre", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Newest lines of the log" });
  const path = el("p", { class: "faint" });
  const root = el("section", { class: "card", "aria-labelledby": "log-title" }, el("h2", { id: "log-title" }, "Log"), path, text);
  return {
    root,
    render(log) {
      show(root, log);
      if (!log) return;
      const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
      setText(text, log.lines.join("\n"));
      show(text, log.lines.length);
      setText(path, log.error ?? (log.lines.length ? `${log.path}${log.truncated ? ", its newest lines" : ""}` : "It has not said anything yet."));
      if (atEnd) text.scrollTop = text.scrollHeight;
    },
  };
}
