"""The JSON Schemas of the documents, made from their shapes. Heavy to import; nothing at run time needs it.

`python -m reconciler.render.schemas --check` fails if the committed files differ; `--write` renews them.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from reconciler.committed import keep
from reconciler.render.access_shapes import WhoamiDocument
from reconciler.render.advice_shapes import AdviceDocument
from reconciler.render.budget_shapes import BudgetDocument
from reconciler.render.diff_shapes import DiffDocument
from reconciler.render.doctor_shapes import DoctorDocument
from reconciler.render.history_shapes import EventsDocument, HistoryDocument, RequestListDocument
from reconciler.render.init_shapes import InitDocument
from reconciler.render.measure_shapes import MeasureDocument
from reconciler.render.migrate_shapes import ImportDocument
from reconciler.render.model_shapes import ModelLogDocument, ModelPageDocument
from reconciler.render.service_shapes import ServiceDocument
from reconciler.render.shapes import FORMAT_VERSION, Document, PlanDocument, StatusDocument
from reconciler.render.simulate_shapes import SimulateDocument
from reconciler.render.timeline_shapes import TimelineDocument
from reconciler.render.version_shapes import VersionDocument

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ID_BASE: Final = "urn:reconciler:schemas"
#: Where the committed schemas lie in a checkout.
FOLDER: Final = Path(__file__).parents[2] / "schemas"


def plan_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile --dry-run --json` prints."""
    return _schema(PlanDocument, "plan.v1.json", "A plan of reconcile")


def status_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile status --json` prints."""
    return _schema(StatusDocument, "status.v1.json", "The status of reconcile")


def budget_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile budget --json` prints."""
    return _schema(BudgetDocument, "budget.v1.json", "The memory budget of reconcile")


def doctor_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile doctor --json` prints."""
    return _schema(DoctorDocument, "doctor.v1.json", "An examination by reconcile")


def measure_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile measure --json` prints."""
    return _schema(MeasureDocument, "measure.v1.json", "A measurement by reconcile")


def advice_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/models/NAME/advice answers."""
    return _schema(AdviceDocument, "advice.v1.json", "Advice of reconcile")


def events_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile events --json` prints."""
    return _schema(EventsDocument, "events.v1.json", "Events of reconcile")


def requests_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/requests answers."""
    return _schema(RequestListDocument, "requests.v1.json", "Single requests, as reconcile remembers them")


def history_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile history --json` prints."""
    return _schema(HistoryDocument, "history.v1.json", "The history of models, as reconcile remembers it")


def simulate_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile simulate --json` prints."""
    return _schema(SimulateDocument, "simulate.v1.json", "A simulation by reconcile")


def service_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile service status --json` prints."""
    return _schema(ServiceDocument, "service.v1.json", "A service of reconcile")


def init_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile init --json` prints."""
    return _schema(InitDocument, "init.v1.json", "A first manifest by reconcile")


def import_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile import ... --json` prints."""
    return _schema(ImportDocument, "import.v1.json", "What an import by reconcile left out")


def diff_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile diff --json` prints."""
    return _schema(DiffDocument, "diff.v1.json", "Two revisions of a manifest, compared by reconcile")


def timeline_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/timeline answers."""
    made = _schema(TimelineDocument, "timeline.v1.json", "What reconcile did, and how the memory was")
    # `from` is no name of a field in Python.
    made["properties"] = {name.removesuffix("_"): value for name, value in made["properties"].items()}
    made["required"] = [name.removesuffix("_") for name in made["required"]]
    return made


def model_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/models/NAME answers."""
    return _schema(ModelPageDocument, "model.v1.json", "All that reconcile knows of one model")


def log_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/models/NAME/log answers."""
    return _schema(ModelLogDocument, "log.v1.json", "The last lines of a model's log")


def whoami_schema() -> dict[str, Any]:
    """Return the schema of the document that GET /api/v1/whoami answers."""
    return _schema(WhoamiDocument, "whoami.v1.json", "What an API key of reconcile allows")


def version_schema() -> dict[str, Any]:
    """Return the schema of the document that `reconcile --version --json` prints."""
    return _schema(VersionDocument, "version.v1.json", "What this program is, and what it runs on")


#: What `reconcile schema` prints, besides the manifest's, and what lies in `schemas/`.
SCHEMAS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "plan": plan_schema,
    "status": status_schema,
    "budget": budget_schema,
    "measure": measure_schema,
    "doctor": doctor_schema,
    "advice": advice_schema,
    "simulate": simulate_schema,
    "events": events_schema,
    "requests": requests_schema,
    "history": history_schema,
    "service": service_schema,
    "init": init_schema,
    "import": import_schema,
    "diff": diff_schema,
    "timeline": timeline_schema,
    "model": model_schema,
    "log": log_schema,
    "whoami": whoami_schema,
    "version": version_schema,
}


def _schema(shape: type[Document], file: str, title: str) -> dict[str, Any]:
    made = TypeAdapter(shape).json_schema(mode="serialization")
    _drop_titles(made)
    version = {
        "const": FORMAT_VERSION,
        "description": "Grows only when readers of the old shape would be misled.",
    }
    made["properties"] = {"formatVersion": version, **made["properties"]}
    made["required"] = ["formatVersion", *made["required"]]
    return {"$schema": DIALECT, "$id": f"{ID_BASE}:{file}", "title": title, **made}


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


def main(arguments: list[str]) -> int:
    """`--check` or `--write` the committed schemas; return the exit status."""
    texts = {
        FOLDER / f"{name}.v1.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
        for name, schema in SCHEMAS.items()
    }
    return keep(texts, "reconciler.render.schemas", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
