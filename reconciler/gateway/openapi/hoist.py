"""A JSON Schema with definitions of its own, as schemas of an OpenAPI document."""

from typing import Any, Final

PREFIX: Final = "#/components/schemas/"


def reference(name: str) -> dict[str, str]:
    """Return a reference to a schema of the document."""
    return {"$ref": PREFIX + name}


def hoisted(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema under `name`, and its definitions as `name.definition`, with references that fit."""
    whole = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "$defs")}
    parts = {f"{name}.{key}": value for key, value in sorted(schema.get("$defs", {}).items())}
    return {key: _pointed(value, f"{PREFIX}{name}.") for key, value in {name: whole, **parts}.items()}


def _pointed(node: Any, prefix: str) -> Any:
    if isinstance(node, list):
        return [_pointed(child, prefix) for child in node]
    if not isinstance(node, dict):
        return node
    made = {key: _pointed(value, prefix) for key, value in node.items()}
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace("#/$defs/", prefix)
    return made
