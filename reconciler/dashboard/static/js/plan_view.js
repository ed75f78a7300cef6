// The action in flight and the plan, each step with its reason; and what would help those that wait in vain.

import { byId, el, fill, keyed, setAttribute, setText, show } from "./dom.js";
import { counted, listed, size, span, wholeSpan } from "./format.js";
import { retryText } from "./models_view.js";
import { said } from "./reasons.js";
import { modelHref } from "./router.js";
import { known, since, watch } from "./store.js";

const DOING = {
  loading: "Loading",
  draining: "Letting requests end at",
  saving: "Saving the state of",
  stopping: "Stopping",
  settling: "Waiting for the memory of",
};

/** What happens at its deadline. */
const DEADLINE = { loading: "given up", draining: "cut", saving: "given up", stopping: "killed", settling: "given up" };

/** Begin to show it. */
export function mountPlan() {
  const action = el("p", { class: "action" }, el("span"), " ", el("a"), " ", el("span", { class: "faint" }));
  const bar = el("progress", { "aria-label": "Progress of the action" });
  const idle = el("p", { class: "faint" });
  const steps = el("ol", { class: "steps" });
  const summary = el("p", { class: "faint" });
  const helps = el("div", {}, el("h3", {}, "What would help"), el("ul", { class: "helps" }));
  fill(byId("plan"), action, bar, idle, steps, summary, helps);
  watch(["status", "now"], () => known.status && renderAction(action, bar));
  watch(["status", "plan"], () => {
    if (!known.plan) return;
    renderSteps(steps, summary);
    renderHelps(helps);
  });
  watch(["status", "plan", "now"], () => known.plan && renderIdle(idle));
  watch(["status", "plan"], announce);
}

function renderAction(node, bar) {
  const action = known.status.action;
  show(node, action);
  show(bar, action);
  if (!action) return;
  const [doing, , link, , time] = node.childNodes;
  const elapsed = action.elapsed + since();
  setText(doing, DOING[action.doing] ?? action.doing);
  setText(link, action.model);
  setAttribute(link, "href", modelHref(action.model));
  const about = action.expected ? ` of ${action.doing === "loading" ? "about" : "at most"} ${span(action.expected)}` : "";
  const left = action.deadline_in === null ? "" : `; ${DEADLINE[action.doing] ?? "over"} in ${wholeSpan(action.deadline_in - since())}`;
  setText(time, `${wholeSpan(elapsed)}${about}${left}`);
  if (action.expected) {
    bar.max = action.expected;
    bar.value = Math.min(elapsed, action.expected * 0.99);
  } else {
    bar.removeAttribute("value");
  }
}

function renderIdle(node) {
  const text = known.plan.steps.every(inFlight) ? restText(known.status?.models ?? [], known.status?.action) : "";
  show(node, text);
  setText(node, text);
}

/** Why nothing is done, or follows what is being done. */
function restText(models, action) {
  const blocked = models.filter((model) => model.state === "blocked").map((model) => model.name);
  const tried = models.filter((model) => retryText(model) && model.state === "failing").sort((a, b) => a.retry_in - b.retry_in);
  if (!blocked.length && !tried.length) return action ? "" : "Nothing to do: everything is as the manifest wants it, as far as there is room.";
  const waits = blocked.length ? ` ${listed(blocked)} cannot be loaded now.` : "";
  const next = tried.length ? ` ${tried[0].name} failed, and its next try is ${retryText(tried[0])}.` : "";
  return `${action ? "Nothing is planned after that." : "Nothing can be done at the moment."}${waits}${next}`;
}

function renderSteps(list, summary) {
  const { summary: count } = known.plan;
  const steps = known.plan.steps.filter((step) => !inFlight(step));
  keyed(list, steps, (step) => `${step.action} ${step.model} ${step.pid ?? ""}`, makeStep, updateStep);
  show(list, steps.length);
  const parts = Object.entries(count).filter(([, n]) => n > 0).map(([what, n]) => (what === "blocked" || what === "cold" ? `${n} ${what}` : `${n} to ${what}`));
  setText(summary, `Plan: ${parts.join(", ") || "no models"}.${steps.length > 1 && !known.status?.action ? " Only step 1 runs before the machine is looked at again." : ""}`);
}

/** Whether a step is the action that is shown above the list already. */
function inFlight(step) {
  const action = known.status?.action;
  return Boolean(action) && action.model === step.model && (action.doing === "loading") === (step.action === "load");
}

function makeStep(step) {
  return el("li", {}, el("span", { class: `sign ${step.action}`, "aria-hidden": "true" }, step.action === "load" ? "+" : "−"),
    el("span", { class: "what" }), el("span", { class: "reason faint" }));
}

function updateStep(node, step) {
  const [, what, reason] = node.children;
  const amount = step.action === "load" ? `needs ${size(step.bytes)}` : `frees ${size(step.bytes)}`;
  const verb = step.action === "load" ? "load" : step.sleeps ? "put to sleep" : "evict";
  setText(what, `${verb} ${step.model}: ${amount}, then ${size(step.free)} free`);
  const whom = step.for_model ? ` for ${step.for_model}` : "";
  const drain = step.drain ? "; its requests get to end first" : "";
  const [head, more] = said(step);
  setText(reason, `${head}${whom}${more ? `: ${more}` : ""}${drain}`);
}

function renderHelps(node) {
  const hints = known.status?.advice ?? known.plan.advice;
  show(node, hints.length);
  keyed(node.lastChild, hints, (hint) => hint.text, (hint) => el("li", {}, hint.text));
}

let announced = "";

/** Read out what is begun, and plans that changed; not every second of it. */
function announce() {
  const action = known.status?.action;
  const steps = known.plan?.steps ?? [];
  const doing = action ? `${DOING[action.doing] ?? action.doing} ${action.model}. ` : "";
  const next = steps.length ? `Plan: ${counted(steps.length, "step")}, first ${steps[0].action} ${steps[0].model}.` : "Nothing more to do.";
  const text = doing + next;
  if (text !== announced) setText(byId("announce"), text);
  announced = text;
}
