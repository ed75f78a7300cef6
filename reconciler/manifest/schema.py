"""The manifest's JSON Schema, made from the same document the loader uses. Editors complete and explain by it.

`python -m reconciler.manifest.schema --check` fails if the committed file is not what the code says; `--write` renews
it.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from reconciler.committed import keep
from reconciler.manifest.document import Document
from reconciler.manifest.names import NAME_LENGTH

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID: Final = "urn:reconciler:schemas:manifest.v1.json"
#: Where the committed schema lies in a checkout.
SCHEMA_PATH: Final = Path(__file__).parents[2] / "schemas" / "manifest.v1.json"
#: Texts that hold an expansion are checked once it is done, so an editor lets them pass.
EXPANSION: Final = {"type": "string", "pattern": r"\$\{env:", "description": "A value from the environment."}
NAME_PATTERN: Final = r"^(?![./\s])[\s\S]*\S$"


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a manifest file."""
    schema = Document.model_json_schema(by_alias=True)
    definitions = {name: _opened(part) for name, part in sorted(schema.pop("$defs").items())}
    version = schema["properties"].pop("apiVersion")
    properties = _opened(schema)["properties"]
    models = properties["models"]
    for names in (models, properties["virtual"]):
        names["propertyNames"] = {"pattern": NAME_PATTERN, "maxLength": NAME_LENGTH}
    _accept_command_text(definitions["Model"]["properties"]["command"])
    return {
        "$schema": DIALECT,
        "$id": SCHEMA_ID,
        "title": "reconciler manifest",
        "description": schema["description"],
        "type": "object",
        # A directory's files share the models among them, so one file need not have any.
        "required": ["apiVersion"],
        "properties": {"apiVersion": {n: v for n, v in version.items() if n != "title"}, **properties},
        "patternProperties": {"^x-": {"description": "Ignored: a place for anchors."}},
        "additionalProperties": False,
        "$defs": {**definitions, "Expansion": EXPANSION},
    }


def schema_text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Print, `--check` or `--write` the committed schema; return the exit status."""
    if arguments:
        return keep({SCHEMA_PATH: schema_text()}, "reconciler.manifest.schema", arguments)
    sys.stdout.write(schema_text())
    return 0


def _opened(part: Any) -> Any:
    """Return a schema in which every value but a list or mapping may also be an expansion."""
    if isinstance(part, list):
        return [_opened(each) for each in part]
    if not isinstance(part, dict):
        return part
    if "properties" in part:
        return {**part, "properties": {name: _field(field) for name, field in part["properties"].items()}}
    return part


def _field(field: dict[str, Any]) -> dict[str, Any]:
    """Return one key's schema: without what only describes the code, open to expansions, never null."""
    outside: dict[str, Any] = {name: field[name] for name in ("description", "default") if name in field}
    inside = {name: value for name, value in field.items() if name not in ("description", "default", "title")}
    if outside.get("default", 0) is None or outside.get("default") in ([], {}):
        del outside["default"]
    options = _options(inside)
    options = [_items(option) for option in options]
    if any(_is_checked(option) for option in options):
        options.append({"$ref": "#/$defs/Expansion"})
    return {**(options[0] if len(options) == 1 else {"anyOf": options}), **outside}


def _options(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a schema, flat, without null: an empty value is refused."""
    for word in ("anyOf", "oneOf"):
        if word in part:
            return [option for each in part[word] for option in _options(each)]
    return [] if part == {"type": "null"} else [part]


def _items(option: dict[str, Any]) -> dict[str, Any]:
    """Open the items of a list, and drop what JSON Schema does not know."""
    option = {name: value for name, value in option.items() if name != "title"}
    if isinstance(option.get("items"), dict):
        option["items"] = _field(option["items"])
    return option


def _is_checked(option: dict[str, Any]) -> bool:
    """Tell whether an option would refuse a text with an expansion in it."""
    if option.get("type") in ("boolean", "integer", "number"):
        return True
    return "enum" in option or "const" in option or "pattern" in option


def _accept_command_text(command: dict[str, Any]) -> None:
    description = command.pop("description")
    words = dict(command)
    command.clear()
    command["anyOf"] = [{"type": "string", "minLength": 1}, words]
    command["description"] = description


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
