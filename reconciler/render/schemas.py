"""The JSON Schemas of the documents, generated from their shapes. Heavy to import; nothing at run time needs it."""

from typing import Any, Final

from pydantic import TypeAdapter

from reconciler.render.shapes import FORMAT_VERSION, Document, PlanDocument, StatusDocument

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BASE: Final = "https://reconciler.dev/schemas"


def plan_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile --dry-run --json` prints."""
    return _schema(PlanDocument, "plan.v1.json", "A plan of reconcile")


def status_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile status --json` prints."""
    return _schema(StatusDocument, "status.v1.json", "The status of reconcile")


def _schema(shape: type[Document], file: str, title: str) -> dict[str, Any]:
    made = TypeAdapter(shape).json_schema(mode="serialization")
    _drop_titles(made)
    version = {
        "const": FORMAT_VERSION,
        "description": "Grows only when readers of the old shape would be misled.",
    }
    made["properties"] = {"formatVersion": version, **made["properties"]}
    made["required"] = ["formatVersion", *made["required"]]
    return {"$schema": DIALECT, "$id": f"{BASE}/{file}", "title": title, **made}


def _drop_titles(node: Any) -> None:
    """Remove the titles made from field names: they say nothing the names do not."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for child in node.values():
            _drop_titles(child)
    elif isinstance(node, list):
        for child in node:
            _drop_titles(child)
