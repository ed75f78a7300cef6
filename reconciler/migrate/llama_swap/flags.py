"""What the words of a server's command line become: keys where the manifest has them, else `args`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.engines.llama import files as llama_files
from reconciler.migrate.llama_swap import hub
from reconciler.migrate.llama_swap.command import pairs
from reconciler.migrate.llama_swap.paths import placed

_HUB: Final = frozenset({"-hf", "-hfr", "--hf-repo"})
_FETCHED: Final = frozenset({"-mu", "--model-url", "-dr", "--docker-repo"})
_DROPPED: Final = frozenset({"--host", "--port"})


@dataclass(slots=True)
class Converted:
    """The keys of a model, the words that have none, and what is to be said of it."""

    keys: dict[str, Any] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    #: What became of a flag, and what to do: lost; and: works in another way.
    lost: list[tuple[str, str]] = field(default_factory=list)
    differs: list[tuple[str, str]] = field(default_factory=list)
    #: Why it cannot be a model of this engine; "" = it can.
    refused: str = ""


@dataclass(slots=True)
class _Llama:
    """The flags of one `llama-server` that are read together."""

    base: Path
    environ: Mapping[str, str]
    #: The repository that `-hf` names.
    fetched: str = ""
    made: Converted = field(default_factory=Converted)
    context: str | None = None
    slots: str | None = None
    key_type: str | None = None
    value_type: str | None = None
    mapped: bool = True
    locked: bool = False

    def flag(self, name: str, value: str) -> bool:
        """Take a flag; tell whether it is done with."""
        if name in _HUB:
            self.fetched = value
            return True
        if name in _FETCHED:
            self.made.refused = (
                f"{name} has llama.cpp fetch the weights by itself, and the engine llama.cpp takes a file"
            )
            return True
        if name in _DROPPED:
            return True
        act = _ACTIONS.get(name)
        if act is not None:
            act(self, value)
        return act is not None

    def path(self, key: str, value: str) -> None:
        self.made.keys[key] = placed(value, self.base)

    def role(self, value: str) -> None:
        self.made.keys["role"] = value

    def projector(self, value: str) -> None:
        self.path("projector", value)
        self.made.keys.setdefault("role", "vision")

    def adapter(self, value: str) -> None:
        found = self.made.keys.setdefault("adapters", [])
        found += [{"path": placed(each, self.base)} for each in value.split(",") if each]

    def threads(self, value: str) -> None:
        if value.isdecimal() and int(value) > 0:
            self.made.keys.setdefault("device", {})["threads"] = int(value)

    def pooling(self, value: str) -> None:
        if value == "rank":
            self.role("rerank")
        self.made.args += ["--pooling", value]


_ACTIONS: Final[dict[str, Callable[[_Llama, str], None]]] = {
    **dict.fromkeys(("-m", "--model"), lambda s, v: s.path("weights", v)),
    **dict.fromkeys(("-c", "--ctx-size"), lambda s, v: setattr(s, "context", v)),
    **dict.fromkeys(("-np", "--parallel"), lambda s, v: setattr(s, "slots", v)),
    **dict.fromkeys(("-ctk", "--cache-type-k"), lambda s, v: setattr(s, "key_type", v)),
    **dict.fromkeys(("-ctv", "--cache-type-v"), lambda s, v: setattr(s, "value_type", v)),
    **dict.fromkeys(llama_files.PROJECTOR.flags, _Llama.projector),
    **dict.fromkeys(llama_files.DRAFT.flags, lambda s, v: s.path("draft", v)),
    **dict.fromkeys(("-t", "--threads"), _Llama.threads),
    **dict.fromkeys(("--embedding", "--embeddings"), lambda s, _: s.role("embedding")),
    **dict.fromkeys(("--rerank", "--reranking"), lambda s, _: s.role("rerank")),
    "--pooling": _Llama.pooling,
    llama_files.LORA: _Llama.adapter,
    "--mlock": lambda s, _: setattr(s, "locked", True),
    "--no-mmap": lambda s, _: setattr(s, "mapped", False),
}


def llama(words: Sequence[str], base: Path, environ: Mapping[str, str]) -> Converted:
    """Return what the flags of a `llama-server` become. Looks for the files that `-hf` fetched."""
    state, place = _Llama(base, environ), 0
    while place < len(words):
        word = words[place]
        found = pairs(words[place : place + 2])
        took = 1 + (len(found) == 1 and "=" not in word and words[place + 1 : place + 2] == (found[0][1],))
        if not found or not word.startswith("-") or not state.flag(*found[0]):
            state.made.args += words[place : place + took]
        place += took
    _context(state)
    _memory(state)
    _repository(state)
    if "weights" not in state.made.keys and not state.made.refused:
        state.made.refused = "no -m says which file it serves"
    return state.made


def _repository(state: _Llama) -> None:
    """Put the files of the repository that `-hf` names, which llama.cpp has fetched, if they are here."""
    made, named = state.made, state.fetched
    if not named or "weights" in made.keys:
        return
    found = hub.find(named, state.environ)
    if found is None:
        made.refused = (
            f"-hf {named} has llama.cpp fetch the weights by itself, and they are not in its cache here"
        )
        return
    weights, projector = found
    made.keys["weights"] = str(weights)
    if projector is not None and "projector" not in made.keys and "--no-mmproj" not in made.args:
        state.projector(str(projector))
    what = f"-hf {named}: the file in llama.cpp's cache is named, and nothing is fetched"
    made.differs.append((what, "name another file as `weights` for another version"))


def _memory(state: _Llama) -> None:
    """Put how the weights come into memory, and the types of the cache."""
    if state.locked or not state.mapped:
        state.made.keys["memory"] = {"mode": "mlock" if state.locked else "none"}
    key, value = state.key_type, state.value_type
    if key is not None and key == value:
        state.made.keys.setdefault("context", {})["cache_type"] = key
    else:
        state.made.args += ["-ctk", key] if key else []
        state.made.args += ["-ctv", value] if value else []


def _context(state: _Llama) -> None:
    """Put the length and the slots: llama-server divides its context among them, a manifest gives each its own."""
    made = state.made
    slots = int(state.slots) if state.slots and state.slots.isdecimal() and int(state.slots) else None
    tokens = state.context
    context = made.keys.setdefault("context", {})
    if tokens is not None and tokens.isdecimal():
        if int(tokens):
            context["max_tokens"] = int(tokens) // (slots or 1)
    elif tokens is not None and slots in (None, 1):
        context["max_tokens"] = tokens  # from a variable
    elif tokens is not None:
        made.refused = f"-c {tokens} is divided among {slots} slots, and a manifest states the context of one"
    if slots is not None:
        context["slots"] = slots
    if slots and slots > 1 and tokens is not None and tokens.isdecimal() and int(tokens):
        each = int(tokens) // slots
        text = f"-c {tokens} -np {slots} is said as {each} tokens for each of {slots} slots"
        shared = any(word in ("-kvu", "--kv-unified") for word in made.args)
        if shared or int(tokens) % slots:
            why = (
                "a request may no longer use what others leave"
                if shared
                else f"{int(tokens) % slots} tokens are lost"
            )
            made.differs.append((f"{text}; {why}", "set context.max_tokens and context.slots as you like"))
    if not context:
        del made.keys["context"]
