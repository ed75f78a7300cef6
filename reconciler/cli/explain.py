"""`reconcile explain MODEL`: everything about one model."""

from reconciler.cli import options
from reconciler.cli.output import colour, say, say_json


def explain(
    model: options.Model, /, *, json: options.Json = False, state_dir: options.StateDir = None
) -> int:
    """Say why one model is loaded or not.

    What it holds or needs, who uses it, what it is worth in memory, who would go for it, what would let it in, and
    what went wrong last.
    """
    from reconciler.cli.client import find_loop
    from reconciler.cli.names import find_model
    from reconciler.render import explain_text
    from reconciler.store.paths import state_dir as resolve

    loop = find_loop(resolve(state_dir, create=False))
    document = loop.status()
    found = find_model(document, model)
    advice = loop.advice(found["name"])
    if json:
        say_json({"formatVersion": document["formatVersion"], **found, "advice": advice})
    else:
        say(explain_text(document, found["name"], advice, colour=colour()))
    return 0
