"""Every key of the manifest, from its JSON Schema: what it is, what it takes, what it is when it is left out.

`python -m reconciler.manifest.reference --check | --write` keeps docs/reference.md, the page with all of them.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reconciler.committed import keep
from reconciler.manifest.schema import manifest_schema

Schema = Mapping[str, Any]

#: Where the committed page lies in a checkout.
PATH: Final = Path(__file__).parents[2] / "docs" / "reference.md"
#: What stands in a path for a name that the user chooses, and for each item of a list.
NAME, ITEM = "NAME", "[]"
#: From here on a bound only keeps nonsense out.
_NO_BOUND: Final = 1 << 40
#: Part of a pattern -> what it stands for; the first that is found counts.
_FORMS: Final = (
    ("MiB", "size"),
    ("ms)?", "duration"),
    ("%", "percentage"),
    ("[1-9][0-9]{0,4}-", "FIRST-LAST"),
)
_TOP: Final = """# Reference of the manifest

Every key, from [the schema](../schemas/manifest.v1.json); `python -m reconciler.manifest.reference --write` makes this
page. `reconcile explain KEY`, for example `reconcile explain models.NAME.context.max_tokens`, says the same in a
terminal. With examples, and in the order in which one needs them: [manifest.md](manifest.md).

`NAME` stands for a name of your own, `[]` for each item of a list. What has no default may be left out, unless it is
required.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `default` is as one would write it; None = there is none."""

    path: str
    takes: str
    default: str | None
    required: bool
    means: str

    @property
    def section(self) -> str:
        """The part of the manifest it is shown in."""
        return self.path.split(".", 1)[0].removesuffix(ITEM)


def keys() -> tuple[Key, ...]:
    """Return every key, a mapping before what is in it. `defaults` has those of a model and is not gone through."""
    schema = manifest_schema()
    return tuple(_keys(schema, schema["$defs"], ""))


def find(path: str, known: tuple[Key, ...]) -> Key | None:
    """Return the key that a path means: `models.NAME.queue.max`, `models.chat.queue.max` or `queue.max` of a model."""
    wanted = path.strip().strip(".").replace(f".{ITEM}", ITEM)
    return next(
        (key for prefix in ("", f"models.{NAME}.") for key in known if _matches(prefix + wanted, key.path)),
        None,
    )


def page() -> str:
    """Return docs/reference.md."""
    parts, section = [_TOP], ""
    for key in keys():
        if key.section != section:
            section = key.section
            parts.append(
                f"\n## `{section}`\n\n| key | takes | default | meaning |\n| --- | --- | --- | --- |"
            )
        default = "required" if key.required else f"`{key.default}`" if key.default is not None else ""
        parts.append(f"| `{key.path}` | {_cell(key.takes)} | {default} | {_cell(key.means)} |")
    return "\n".join(parts) + "\n"


def _keys(part: Schema, definitions: Schema, before: str) -> Iterator[Key]:
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        path = f"{before}{name}"
        default = field.get("default")
        shown = default if isinstance(default, str) or default is None else json.dumps(default)
        yield Key(path, _takes(field, definitions), shown, name in required, _means(field, definitions))
        if path != "defaults":  # the keys of a model, said once
            yield from _below(field, definitions, path)


def _below(field: Schema, definitions: Schema, path: str) -> Iterator[Key]:
    for option in _options(field):
        target = definitions[option["$ref"].rsplit("/", 1)[1]] if "$ref" in option else option
        yield from _keys(target, definitions, f"{path}.")
        named = [target.get("additionalProperties"), *target.get("patternProperties", {}).values()]
        for each in named:
            if isinstance(each, dict):
                yield from _below(each, definitions, f"{path}.{NAME}")
        if isinstance(target.get("items"), dict):
            yield from _below(target["items"], definitions, f"{path}{ITEM}")


def _options(field: Schema) -> list[Schema]:
    options: list[Schema] = list(field.get("anyOf", [field]))
    return [o for o in options if not o.get("$ref", "").endswith("/Expansion")]


def _takes(field: Schema, definitions: Schema) -> str:
    words = [word for option in _options(field) for word in _forms(option, definitions)]
    if {"size", "duration", "percentage"} & set(words):
        words = [w for w in words if not w.startswith("whole number") and not w.startswith("number")]
    return ", ".join(dict.fromkeys(words))


def _forms(option: Schema, definitions: Schema) -> list[str]:
    if "$ref" in option:
        return _forms(definitions[option["$ref"].rsplit("/", 1)[1]], definitions)
    if "const" in option:
        return [f"`{option['const']}`"]
    if "enum" in option:
        return [f"`{value}`" for value in option["enum"]]
    if "pattern" in option:
        return [next((form for part, form in _FORMS if part in option["pattern"]), "text")]
    kind = option.get("type")
    if kind == "array":
        return [f"list of {_takes(option['items'], definitions)}"] if option.get("items") else ["list"]
    if kind in ("integer", "number"):
        return [_number(option, "whole number" if kind == "integer" else "number")]
    names = {"object": "mapping", "string": "text", "boolean": "`true`, `false`", "null": "`null`"}
    return [names.get(str(kind), "anything")]


def _number(option: Schema, word: str) -> str:
    least, most = option.get("minimum"), option.get("maximum")
    if least is not None and most is not None and most < _NO_BOUND:
        return f"{word} from {least} to {most}"
    return word if least is None else f"{word} from {least}"


def _means(field: Schema, definitions: Schema) -> str:
    if "description" in field:
        return str(field["description"])
    target = next((o["$ref"] for o in _options(field) if "$ref" in o), None)
    return str(definitions[target.rsplit("/", 1)[1]].get("description", "")) if target else ""


def _matches(wanted: str, path: str) -> bool:
    here, there = wanted.split("."), path.split(".")
    return len(here) == len(there) and all(
        b == NAME or a == b or a == b.removesuffix(ITEM) for a, b in zip(here, there, strict=True)
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main(arguments: list[str]) -> int:
    """Write the page, or check that the committed one is this; return the exit status."""
    return keep({PATH: page()}, "reconciler.manifest.reference", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
