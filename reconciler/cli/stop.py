"""`reconcile stop`: end the loop, and the models with it."""

import time
from collections.abc import Iterator, Mapping
from http.client import INTERNAL_SERVER_ERROR
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.output import CliError, note, say

_POLL: Final = 0.1
_LEFT: Final = (
    "stopped; the models run on: the next `reconcile` takes them over, and `reconcile stop` ends them"
)
#: Leases that are named.
_NAMED: Final = 10


def stop(
    *,
    leave_models: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Let the models run on: the next reconcile takes them over, without a load.",
        ),
    ] = False,
    no_wait: options.NoWait = False,
    timeout: options.Timeout = 120.0,
    state_dir: options.StateDir = None,
) -> int:
    """Stop the running loop and its models, or models left running without one.

    Requests in flight get their drain time; leases from outside end at once. Waits until nobody answers any more. What
    machine.on_exit of the manifest says of the models rules where --leave-models is not given.
    """
    from reconciler.cli.client import LoopClient, NotRunningError, RefusedError, awaited_url
    from reconciler.store.paths import state_dir as resolve

    options.require_positive(timeout, "--timeout")
    directory = resolve(state_dir, create=False)
    url = awaited_url(directory)
    if url is None:
        if leave_models:
            say("no loop runs; models that run on without one are left as they are")
            return 0
        return _end_leftovers(directory)
    loop = LoopClient(url)
    deadline = time.monotonic() + timeout
    answer = loop.call("POST", "/api/v1/stop", {"models": "leave"} if leave_models else None)
    if no_wait:
        return 0
    for line in _whom(answer):
        note(line)
    while time.monotonic() < deadline:
        try:
            loop.call("GET", "/healthz")  # asks for no scope, as a status would
        except NotRunningError:
            say(_LEFT if answer.get("models") == "leave" else "stopped")
            return 0
        except RefusedError as error:
            # A request that is under way when the gateway closes is answered with a 5xx.
            if error.status < INTERNAL_SERVER_ERROR:
                raise
        time.sleep(_POLL)
    raise CliError(f"the loop still answers after {timeout:g} s")


def _whom(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield whom the loop waits for before it ends, and whose leases it ends."""
    from reconciler.core.words import counted
    from reconciler.render.paint import one_line

    served = [f"{counted(r['active'], 'request')} on {r['model']}" for r in answer.get("requests", ())]
    if served:
        yield f"stopping; waiting up to {answer['within']:.0f} s for {', '.join(served)}"
    else:
        yield "stopping"
    leases = [f"{lease['model']} ({one_line(lease['owner'])})" for lease in answer.get("leases", ())]
    if leases:
        named = ", ".join(leases[:_NAMED]) + (f" and {len(leases) - _NAMED} more" if leases[_NAMED:] else "")
        yield f"{counted(len(leases), 'lease')} from outside ended at once: {named}"


def _end_leftovers(directory: Path) -> int:
    """End models that run without a loop: `--once` leaves them up, and so does a crash."""
    from reconciler import leftovers
    from reconciler.host import HostError

    try:
        ended = leftovers.end_leftovers(directory)
    except HostError as error:
        raise CliError(str(error)) from error
    say(f"ended: {', '.join(ended)}" if ended else "no loop runs and no model was left running")
    return 0
