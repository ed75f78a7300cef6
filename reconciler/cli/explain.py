"""`reconcile explain MODEL`: everything about one model; `reconcile explain WORD`: what a word of ours means."""

from typing import Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.completing import models
from reconciler.cli.output import colour, say, say_json


def explain(
    what: Annotated[
        str,
        Parameter(
            name="MODEL",
            completer=models,
            help="Name or alias of a model; or a word that reconcile said (MakeRoom, never_fits, unknown-key), or a"
            " key of the manifest (models.NAME.queue).",
        ),
    ],
    /,
    *,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Say why one model is loaded or not, or what a word means.

    Of a model: what it holds or needs, who uses it, what it is worth in memory, who would go for it, what would let it
    in, and what went wrong last. Of a reason, an error code or a key of the manifest: what it means and what helps; no
    loop has to run for that.
    """
    from reconciler.cli.client import NotRunningError
    from reconciler.cli.names import NoSuchModelError
    from reconciler.cli.words import meanings
    from reconciler.glossary import nearest

    try:
        _explain_model(what, json=json, state_dir=state_dir)
    except (NotRunningError, NoSuchModelError) as error:
        found = meanings(what)
        if not found:
            guess = nearest(what)
            raise type(error)(f'{error}\nof the words, "{guess}" is near') if guess else error from None
        if json:
            say_json([meaning.document() for meaning in found])
        else:
            say("\n\n".join(meaning.text() for meaning in found))
    return 0


def _explain_model(name: str, *, json: bool, state_dir: options.StateDir) -> None:
    from reconciler.cli.client import find_loop
    from reconciler.cli.names import find_model
    from reconciler.render.explain_text import explain_text
    from reconciler.store.paths import state_dir as resolve

    loop = find_loop(resolve(state_dir, create=False))
    document = loop.status()
    found = find_model(document, name)
    advice = loop.advice(found["name"])
    if json:
        say_json({"formatVersion": document["formatVersion"], **found, "advice": advice})
    else:
        say(explain_text(document, found["name"], advice, colour=colour()))
