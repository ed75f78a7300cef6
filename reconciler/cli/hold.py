"""`reconcile hold MODEL`."""

from typing import Annotated

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import UsageError, note, say, say_json


def hold(
    model: options.Model,
    /,
    *command: Annotated[
        str, Parameter(help="Command to run meanwhile; the lease lasts as long as it runs. Put -- before it.")
    ],
    time: Annotated[
        str, Parameter(name="--for", metavar="TIME", help="How long: 90s, 30m, 8h; at most 24h.")
    ] = "30m",
    owner: Annotated[
        str | None,
        Parameter(name="--owner", metavar="NAME", help="Who holds it, for people [default: user and pid]."),
    ] = None,
    wait: Annotated[
        bool,
        Parameter(
            name="--wait", negative=(), show_default=False, help="Return only when the model is in memory."
        ),
    ] = False,
    timeout: options.Timeout = 600.0,
    json: options.Json = False,
    state_dir: options.StateDir = None,
) -> int:
    """Keep a model in memory for a while, for a job outside the gateway.

    Prints the id of the lease, for `reconcile release`. The model is loaded if need be, by the same rules as for a
    request. Before a command is run the model is waited for; its exit code is that of the command.
    """
    from reconciler.cli import holding
    from reconciler.cli.client import find_loop
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(timeout, "--timeout")
    if command and json:
        raise UsageError("--json does not go with a command: stdout is the command's")
    loop = find_loop(resolve(state_dir, create=False))
    owner = owner or holding.default_owner()
    with holding.leased(loop, model, time, owner, keep=not command) as lease:
        if wait or command:
            note(f"lease {lease['id']}")
            lease = holding.until_held(loop, lease, time, timeout)
        if command:
            return holding.while_running(loop, lease, time, command)
        if json:
            say_json({"formatVersion": 1, **lease})
        else:
            say(lease["id"])
    return 0
