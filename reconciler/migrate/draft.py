"""A manifest in the making: keys in the order they are written, with the comments that belong to them."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from reconciler.manifest.document import API_VERSION

#: Columns after which a line may be broken: a long path stays in one.
WIDTH: Final = 4096
#: A list of more words than this, or a longer one, is written one word a line.
_IN_ONE_LINE: Final = 90
#: How patient others are with requests: nobody is cut for another model, and a wait has hardly an end.
PATIENCE: Final[Mapping[str, Mapping[str, str]]] = {
    "timeouts": {"drain": "never"},
    "queue": {"timeout": "5m"},
}
PATIENT: Final = (
    "nobody is cut for another model, as before; a request that waits has an end now: queue.timeout"
)
PATIENT_HOW: Final = "both stand under `defaults`; timeouts.drain is what a busy model gets before it goes"
#: The order in which a model's keys are written: what it is, who keeps memory, what it takes, the rest.
_ORDER: Final = (
    *("engine", "command", "weights", "projector", "adapters", "draft", "python", "role", "aliases"),
    *("residency", "priority", "idle_ttl", "context", "memory", "device", "concurrency", "timeouts"),
    *("health", "port", "cwd", "env", "args"),
)


@dataclass(slots=True)
class ModelDraft:
    """One model: its keys as a manifest has them."""

    name: str
    keys: dict[str, Any] = field(default_factory=dict)
    #: Comments that stand above the model, and inside it before its first key; each one line.
    above: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    #: Key -> the comment behind it.
    behind: dict[str, str] = field(default_factory=dict)

    def nested(self, key: str) -> dict[str, Any]:
        """Return the mapping at `key`, made if it is not there."""
        made: dict[str, Any] = self.keys.setdefault(key, {})
        return made


@dataclass(slots=True)
class ManifestDraft:
    """All of it."""

    #: Comments at the beginning, and behind the last model.
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    gateway: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    models: list[ModelDraft] = field(default_factory=list)
    virtual: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return the manifest as YAML."""
        yaml = YAML()
        yaml.width = WIDTH
        yaml.indent(mapping=2, sequence=4, offset=2)
        out = io.StringIO()
        yaml.dump(self._root(), out)
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        return "\n".join([*lines, *(f"  # {line}".rstrip() for line in self.tail)]) + "\n"

    def _root(self) -> CommentedMap:
        root = CommentedMap(apiVersion=API_VERSION)
        root.yaml_set_start_comment("\n".join(self.head))
        for key in ("machine", "gateway", "defaults"):
            if value := getattr(self, key):
                root[key] = _plain(value, top=True)
        root["models"] = models = CommentedMap()
        for draft in self.models:
            models[draft.name] = _model(draft)
            if draft.above:
                models.yaml_set_comment_before_after_key(draft.name, before="\n".join(draft.above), indent=2)
        if self.virtual:
            root["virtual"] = _plain(self.virtual, top=True)
        return root


def _model(draft: ModelDraft) -> CommentedMap:
    made = CommentedMap()
    for key, value in sorted(draft.keys.items(), key=lambda item: _ORDER.index(item[0])):
        made[key] = _plain(value)
        if comment := draft.behind.get(key):
            made.yaml_add_eol_comment(comment, key)
    if draft.inside and made:
        first = next(iter(made))
        made.yaml_set_comment_before_after_key(first, before="\n".join(draft.inside), indent=4)
    return made


def _plain(value: object, *, top: bool = False) -> object:
    """Return a value with the layout it is to have: what is short stands in one line."""
    if isinstance(value, Mapping):
        made = CommentedMap({key: _plain(each) for key, each in value.items()})
        if not top and _short(value):
            made.fa.set_flow_style()
        return made
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = CommentedSeq(_plain(each) for each in value)
        if _short(value) and not any(isinstance(each, Mapping) for each in value):
            items.fa.set_flow_style()
        return items
    return value


def _short(value: object) -> bool:
    return len(str(value)) <= _IN_ONE_LINE and "\n" not in repr(value).replace("\\n", "\n")
