"""Plan and status as text or JSON: the only place that builds sentences from them."""

from reconciler.render.advice_document import advice_json, hint_documents
from reconciler.render.budget_document import budget, budget_json
from reconciler.render.budget_text import budget_text
from reconciler.render.explain_text import explain_text
from reconciler.render.notes import note_lines
from reconciler.render.paint import one_line
from reconciler.render.plan_document import plan_json
from reconciler.render.plan_text import plan_text
from reconciler.render.shapes import FORMAT_VERSION
from reconciler.render.status_document import status_json
from reconciler.render.status_text import status_text

__all__ = [
    "FORMAT_VERSION",
    "advice_json",
    "budget",
    "budget_json",
    "budget_text",
    "explain_text",
    "hint_documents",
    "note_lines",
    "one_line",
    "plan_json",
    "plan_text",
    "status_json",
    "status_text",
]
