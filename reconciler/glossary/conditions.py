"""Conditions of the manifest and of models, and the reasons that only they give."""

from typing import Final

from reconciler.glossary.words import Kind, Word


def _condition(name: str, means: str, helps: str = "", page: str = "cli.md#reading-a-status") -> Word:
    return Word(name, Kind.CONDITION, means, helps, page)


CONDITIONS: Final = (
    _condition("Ready", "Of the manifest: every pinned model answers requests. Of a model: it answers them."),
    _condition(
        "ManifestValid",
        "Whether the newest text of the manifest is in force. False: an older one is, and nothing was unloaded.",
        "`reconcile validate` names every mistake with its place",
        "manifest.md",
    ),
    _condition(
        "Progressing", "An action is in flight: a load, a drain, a stop, or the wait for memory to come back."
    ),
    _condition(
        "Degraded",
        "Something is wrong that does not stop the work; its reason says what.",
        "the message of the condition says what helps",
    ),
    _condition(
        "Suspect",
        "A model that is ready may hang: it is asked by a small request of reconcile's own.",
        "`reconcile logs NAME` shows what it does",
        "health.md",
    ),
    _condition(
        "SafeMode",
        "The machine itself went down three times in a row over a load: only pinned models are loaded.",
        "`reconcile resume` ends it; ten calm minutes do, too",
        "crashes.md#safe-mode",
    ),
    _condition(
        "EvictedThenWanted",
        "A model was evicted and asked for again at once, more than once: the budget or an estimate is wrong.",
        "`reconcile history NAME` shows when; more memory, a smaller context or a higher priority helps",
        "history.md",
    ),
    _condition(
        "LedgerUnwritable",
        "What is to outlive a restart cannot be written: a full disk, or a directory that is read-only.",
        "free disk, or make the state directory writable; the models serve on meanwhile",
        "processes.md",
    ),
    _condition(
        "ProbeUnreadable",
        "A source of memory readings gave nothing: a driver's file or program.",
        "`reconcile doctor` says which, and what helps",
        "probes.md",
    ),
    _condition(
        "Unattributed",
        "Much of the machine's memory is in use and nobody owns up to it: GPU drivers, balloons.",
        "`reconcile doctor` looks for the holder",
        "memory.md",
    ),
    _condition(
        "OverEstimate",
        "A model holds more than it was expected to; it is charged what it holds.",
        "`reconcile measure NAME --write` puts the measured size into the manifest",
        "memory.md",
    ),
    _condition(
        "ContextShrunk",
        "The engine runs with a smaller context than the manifest asks for.",
        "lower `context.max_tokens`, or see in `reconcile logs NAME` why it would not take it",
        "memory.md",
    ),
)
