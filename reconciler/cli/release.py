"""`reconcile release ID`."""

from typing import Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import say_json


def release(
    lease: Annotated[
        str, Parameter(name="ID", help="What `reconcile hold` printed; `reconcile status` shows it.")
    ],
    /,
    *,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """End a lease that `reconcile hold` began."""
    from reconciler.cli.client import find_loop
    from reconciler.store.paths import state_dir as resolve

    find_loop(resolve(state_dir, create=False)).release(lease)
    if json:
        say_json({"formatVersion": 1, "id": lease, "state": "released"})
    return 0
