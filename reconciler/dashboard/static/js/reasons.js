// Why a model is as it is, in a sentence: the reason's meaning, and the plan's own figures.

const WORDS = {
  Pinned: "pinned",
  Warm: "kept warm",
  Demanded: "requests wait for it",
  Requested: "somebody asked for it",
  Prewarm: "likely to be used soon",
  MakeRoom: "makes room",
  LessLikely: "makes room for one likelier to be used",
  OverBudget: "models hold more than the budget",
  Drifted: "its settings changed",
  Removed: "not in the manifest any more",
  Duplicate: "a second process of the same model",
  IdleExpired: "idle for longer than idle_ttl",
  TransientDone: "transient: done with its request",
  RestartDue: "a fresh process is due",
  Dismissed: "somebody asked for it to go",
  Crashed: "its process died",
  Hung: "it does not answer",
  Shutdown: "reconcile ends",
  MemoryPressure: "the machine is short of memory",
  InUse: "in use",
  Resident: "in memory",
  Loading: "being loaded",
  NotWanted: "nobody has asked for it",
  NoRoom: "no room",
  InsufficientMemory: "not enough memory",
  NeverFits: "can never fit",
  SizeUnknown: "its size is not known",
  MemoryUnknown: "the machine's memory cannot be read",
  NotStartable: "cannot be started",
  NoPort: "no port is free for it",
  BackingOff: "failed, and is tried again later",
  GivenUp: "failed too often",
  Resting: "was unloaded a moment ago",
  VictimsBusy: "those that could make room are busy",
  VictimsKept: "those that could make room were loaded a moment ago",
  VictimStopping: "waits for another to stop",
  Outranked: "those in memory have a higher priority",
};

/** What a reason means. */
export function meaning(/** @type {string} */ reason) {
  return WORDS[reason] ?? reason;
}

/** With these the plan's own sentence says it all. */
const DETAIL_ALONE = new Set(["MemoryPressure", "OverBudget", "BackingOff", "GivenUp", "NotStartable", "NeverFits"]);

/** Times that stood still when the plan was made. What is shown beside counts on, and would soon contradict them. */
const STOPPED = /^idle \S+$|, tries again in [^:,]+/g;

/** With these nothing but a change or the next try helps, whether anybody waits for the model or not. */
const HOPELESS = new Set(["BackingOff", "GivenUp", "NeverFits", "NotStartable", "SizeUnknown"]);

/** Whether a model would not be loaded if a request came now, for a reason of its own. */
export function hopeless(/** @type {{reason: string} | null} */ verdict) {
  return verdict !== null && HOPELESS.has(verdict.reason);
}

/**
 * A verdict as a short statement and what is to be added to it, which may be "".
 * @param {{reason: string, detail: string} | null} verdict
 * @returns {[string, string]}
 */
export function said(verdict) {
  if (!verdict) return ["not looked at yet", ""];
  const { reason } = verdict;
  const detail = verdict.detail.replace(STOPPED, "");
  if (detail && DETAIL_ALONE.has(reason)) return [detail, ""];
  return [meaning(reason), detail === meaning(reason) ? "" : detail];
}

/** A verdict as one sentence. */
export function why(/** @type {{reason: string, detail: string} | null} */ verdict) {
  return said(verdict).filter(Boolean).join(": ");
}
