"""Codes of faults in a manifest, or in a file that describes a machine: each message ends with one, in brackets."""

from typing import Final

from reconciler.glossary.words import Kind, Word

_KEYS: Final = "manifest.md#keys"
_YAML: Final = "manifest.md#what-yaml-is-not-allowed-to-do"
_SIZES: Final = "manifest.md#sizes-durations-percentages"
_EDITED: Final = "the message says what to write instead"


def _fault(name: str, means: str, helps: str = _EDITED, page: str = _KEYS) -> Word:
    return Word(name, Kind.FAULT, means, helps, page)


FAULTS: Final = (
    _fault("alias-bomb", "Aliases that repeat each other would make the file enormous.", page=_YAML),
    _fault("api-key", "A key holds a blank or a character that no header may carry."),
    _fault(
        "api-keys",
        "The file or the variable with the API keys cannot be used: unreadable, empty, or with a line that is none.",
        page="manifest.md#api-keys",
    ),
    _fault(
        "api-version",
        "The file does not say that it is of the format `reconciler/v1`.",
        "begin it with `apiVersion: reconciler/v1`",
    ),
    _fault("bad-key", "A key of a mapping is not a text."),
    _fault("bad-merge", "`<<` merges something that is no mapping.", page=_YAML),
    _fault(
        "budget",
        "`machine.memory` and `machine.reserve` leave too little: for any model, or for the pinned ones together.",
    ),
    _fault("choice", "The value is not one of those that this key takes."),
    _fault(
        "command",
        "`command` is missing, empty, or has something that only a shell would understand.",
        page="manifest.md#commands",
    ),
    _fault("concurrency", "`concurrency` is not a number of 1 or more, nor `auto`."),
    _fault(
        "contradiction",
        "A file that describes a machine says two things that cannot both be.",
        page="cli.md#a-machine-that-is-only-described",
    ),
    _fault("cpus", "The value is not a set of CPUs like `0-7` or `0,2,4`."),
    _fault(
        "defined-twice",
        "Two files of the directory define the same name; both places are told.",
        "delete or rename one of them",
        "manifest.md#directories",
    ),
    _fault("duplicate", "The same thing is named twice in one list."),
    _fault(
        "duplicate-key",
        "A key stands twice in one mapping; YAML readers would silently keep one of them.",
        "delete one of them",
        _YAML,
    ),
    _fault(
        "duration",
        "The value is not a duration.",
        "write a number with ms, s, m, h or d: `300s`, `5m`",
        _SIZES,
    ),
    _fault("empty-file", "There is nothing in the file.", "begin it with `apiVersion: reconciler/v1`"),
    _fault("empty-value", "A key has no value.", "give a value, or delete the key"),
    _fault(
        "encoding",
        "The file is not UTF-8; the place of the first wrong byte is told.",
        "save it as UTF-8",
        _YAML,
    ),
    _fault("engine", "The engine is not known, or does not do what the model asks of it.", page="engines.md"),
    _fault("entry", "`entry` does not name a class of a module, like `workers:Ocr`.", page="worker.md"),
    _fault("env-name", "The name of an environment variable has a character that it cannot have."),
    _fault(
        "expansion",
        "`${...}` is not closed, not known, or names a variable that is not set.",
        "write `${env:NAME}`, or `${env:NAME:-default}`",
        "manifest.md#values-from-the-environment",
    ),
    _fault("gate", "A gate is not known, or its name has a meaning of its own.", page="manifest.md#gates"),
    _fault("git", "git cannot be run, or does not know this revision or path.", page="cli.md"),
    _fault("gpus", "The value is not `auto`, `none`, or a list of GPUs."),
    _fault("header", "The value is not the name of a header, or of one that holds a secret."),
    _fault(
        "health",
        "The engine knows by itself how to ask whether it is ready.",
        "delete `health`; it is for `engine: command`",
    ),
    _fault("hook", "The value is no address of the model's own server.", page="state.md"),
    _fault("host", "The value is not the name of a host, without a port.", page="access.md"),
    _fault(
        "invisible-character",
        "A character that cannot be seen would change the meaning: a no-break space, a control character.",
        "write the plain character instead",
        _YAML,
    ),
    _fault("listen", "The value is not an address to listen on.", "write 127.0.0.1:8080 or [::1]:8080"),
    _fault("memory", "`memory.peak` is less than `memory.steady`."),
    _fault("misplaced-key", "The key belongs elsewhere; the message says where."),
    _fault("missing-key", "A key that must be there is missing."),
    _fault("name", "A model's name is too long, or has characters that a client could not send."),
    _fault("name-clash", "A name, an alias or a virtual model is there twice."),
    _fault(
        "no-manifest",
        "There is no manifest at this path, or no `*.yaml` in this directory.",
        "`reconcile init` writes one",
        "manifest.md#directories",
    ),
    _fault(
        "open-gateway",
        "Other machines can reach the address, and no API key is asked for.",
        "add `gateway.api_keys`, or listen on 127.0.0.1",
        "access.md",
    ),
    _fault(
        "origin",
        "The value is not the origin of a page: scheme, host and port, and nothing after them.",
        page="access.md",
    ),
    _fault("overflow", "`overflow` has no effect for a model that writes no text.", page="context.md"),
    _fault("path", "The path could only be used by a shell: it begins with `~` or `$`."),
    _fault("pattern", "The text does not have the form that this key takes."),
    _fault("percent", "The value is not a percentage.", "write 75%", _SIZES),
    _fault("port-clash", "A port is used twice: by two models, the gateway, or `machine.ports`."),
    _fault("ports", "The value is not a range of ports.", "write first and last port: 18100-18199"),
    _fault("priority", "The value is not a priority from 0 to 1000, nor one of the words."),
    _fault(
        "quote-it",
        "YAML reads this as a number, a date or a truth value, and a text is expected.",
        'quote it: "1.5"',
        _YAML,
    ),
    _fault("range", "The number is too small or too large, or a list is too long."),
    _fault("rate", "The value is not a rate.", "write tokens a second as a number above 0"),
    _fault("recursive-alias", "An alias contains itself.", page=_YAML),
    _fault("size", "The value is not a size.", "write a number with a unit: 8GiB, 8GB, 512MiB", _SIZES),
    _fault(
        "summarizer", "`summarizer` has no effect, or names a model that cannot summarise.", page="context.md"
    ),
    _fault("tab", "A tab stands where YAML wants blanks.", "indent with blanks", _YAML),
    _fault("too-deep", "Values are nested deeper than any manifest needs.", page=_YAML),
    _fault("too-large", "The file is larger than any manifest.", page=_YAML),
    _fault("two-documents", "`---` begins a second document.", "put it into a file of its own", _YAML),
    _fault("unknown-alias", "An alias (`*name`) has no anchor (`&name`) before it.", page=_YAML),
    _fault("unknown-key", "No such key; the nearest right name is told."),
    _fault("unknown-model", "No model of the manifest has this name."),
    _fault("unknown-tag", "A tag (`!name`) means nothing here.", "delete it", _YAML),
    _fault(
        "unreachable-rule",
        "A rule of a virtual model can never be reached: one before it always applies.",
        page="manifest.md#virtual-models",
    ),
    _fault("unreadable", "The file cannot be read; the system's own words are told."),
    _fault(
        "virtual",
        "A virtual model does not say which models stand behind it, or names one that cannot.",
        page="manifest.md#virtual-models",
    ),
    _fault(
        "watermarks",
        "The watermarks are out of order.",
        "the order is: soft and target, then hard, then critical",
        "memory.md",
    ),
    _fault("wrong-type", "A text, number, list or mapping is expected, and something else stands there."),
    _fault("wrong-value", "The value is not one of those that this key takes."),
    _fault("yaml-syntax", "This is not YAML; the place is where reading it failed.", page=_YAML),
    _fault("yaml-version", "A `%YAML` line asks for another version than 1.2.", "delete it", _YAML),
)
