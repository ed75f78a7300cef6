"""What a manifest says of prompts that are too long although it can have no effect."""

from collections.abc import Iterator, Mapping

from reconciler.manifest.applied import Overflow
from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import Document
from reconciler.manifest.explain import place
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, find

Path = tuple[str | int, ...]


def check_overflow(document: Document, routes: Mapping[str, str], root: Map, problems: Problems) -> None:
    """Note every summarizer that is never asked: written at a model that does not summarise, or by default for none.

    A model may take it from `defaults` and choose otherwise: the summarizer itself has to.
    """
    asked = [name for name, model in document.models.items() if model.context.overflow is Overflow.SUMMARIZE]
    for name, model in document.models.items():
        if name not in asked and model.context.summarizer in routes:
            what = f"`overflow: {model.context.overflow.value}`"
            _unused(("models", name, "context", "summarizer"), f"with {what}", root, problems)
    if document.models and not asked:
        _unused(("defaults", "context", "summarizer"), "where no model summarises", root, problems)


def _unused(path: Path, where: str, root: Map, problems: Problems) -> None:
    if _written(root, path):
        message = f"a summarizer has no effect {where}"
        problems.add(place(root, path), "summarizer", message, "delete it, or write `overflow: summarize`")


def unlimited(document: Document, root: Map) -> Iterator[str]:
    """Yield the models that are to shorten prompts, and of which nobody knows how long those may be."""
    for name, model in sorted(document.models.items()):
        context = model.context
        limited = model.engine != "command" or context.max_tokens is not None
        if limited or context.overflow is Overflow.REJECT:
            continue
        if _written(root, ("models", name, "context", "overflow")):
            what = f"`overflow: {context.overflow.value}` has no effect"
            why = f"the engine {model.engine} does not tell how long a prompt may be"
            yield f"model {quoted(name)}: {what}: {why}; state context.max_tokens"


def _written(root: Map, path: Path) -> bool:
    return find(root, path)[2] == len(path)
