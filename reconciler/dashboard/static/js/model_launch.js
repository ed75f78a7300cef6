// How a model's process is started; the server has taken secrets out already.

import { el, keyed, setText, show } from "./dom.js";

export function launchPart() {
  const command = el("pre", { class: "command", tabindex: "0", "aria-label": "Command" });
  const old = el("p", { class: "told" }, "Its process was started with other settings than those of the manifest, and is to be replaced.");
  const facts = el("dl", { class: "facts" });
  const root = el("section", { class: "card", "aria-labelledby": "launch-title" }, el("h2", { id: "launch-title" }, "How it is started"), old, command, facts);
  return {
    root,
    render(detail) {
      const launch = detail?.launch;
      show(root, launch);
      if (!launch) return;
      show(command, launch.argv.length);
      setText(command, launch.argv.map(quoted).join(" "));
      show(old, !launch.current);
      keyed(facts, rows(launch), ([label]) => label, ([label]) => el("div", {}, el("dt", {}, label), el("dd")), (node, [, text]) => setText(node.lastChild, text));
    },
  };
}

function rows(launch) {
  const all = [["Engine", launch.engine], ["Folder", launch.cwd], ["Variables set", launch.environment.join(", ")], ["Port", launch.port],
    ["Process", launch.pid], ["Digest", launch.digest], ["Log", launch.log]];
  return all.filter(([, value]) => value !== null && value !== undefined && value !== "");
}

/** An argument as one would type it in a shell. */
function quoted(/** @type {string} */ word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
