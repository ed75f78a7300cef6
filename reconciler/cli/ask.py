"""Asking the loop for a load or an evict, and watching until it is done or refused."""

import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from reconciler.cli.client import LoopClient, RefusedError
from reconciler.cli.names import find_model
from reconciler.cli.output import CliError, note, say
from reconciler.render.paint import one_line
from reconciler.render.status_text import action_text, verdict_text

Verb = Literal["load", "evict"]
Json = Mapping[str, Any]

POLL: Final = 0.1
#: No waiting changes these. For other reasons it may still come about by itself: a busy victim becomes idle.
_FINAL: Final = frozenset(
    {"NeverFits", "NotStartable", "SizeUnknown", "MemoryUnknown", "BackingOff", "GivenUp"}
)
#: Looks at the machine after which the loop has surely heard: one may have been under way when we asked.
_HEARD: Final = 2


def ask(loop: LoopClient, name: str, verb: Verb, *, wait: bool, timeout: float) -> None:
    """Ask, then wait up to `timeout` seconds. Raises CliError when it is refused, fails or takes longer."""
    if wait:
        say(carry_out(loop, name, verb, timeout=timeout))
    else:
        loop.act(name, verb)


def carry_out(loop: LoopClient, name: str, verb: Verb, *, timeout: float) -> str:
    """Ask and wait up to `timeout` seconds; return what has come of it. Raises CliError as `ask` does.

    The loop says which model a name is: asking takes the scope `admin` and no other. Only the watching reads.
    """
    before = readable_status(loop)
    name = loop.act(name, verb).get("model", name)
    if before is None:
        raise CliError(
            f"{name}: the {verb} is asked for, but this API key may not watch it: that takes the scope read besides"
            " admin; with --no-wait it is only asked for"
        )
    model = find_model(before, name)
    name = model["name"]
    deadline = time.monotonic() + timeout
    shown = ""
    while True:
        status = loop.status()
        now = find_model(status, name)
        if _done(now, verb) or (verb == "evict" and _gone(now, model)):
            return _outcome(model, now, verb)
        if reason := _refused(
            now, model, verb, heard=status["observation"] >= before["observation"] + _HEARD
        ):
            raise CliError(f"{name} {'was not loaded' if verb == 'load' else 'stays loaded'}: {reason}")
        if (line := progress(status, now)) != shown:
            shown = line
            note(line)
        if time.monotonic() > deadline:
            raise CliError(f"{name} is still {now['state']} after {timeout:g} s; {_goes_on(name, verb)}")
        time.sleep(POLL)


def readable_status(loop: LoopClient) -> dict[str, Any] | None:
    """Return the status document, or None if the API key may not read it."""
    try:
        return loop.status()
    except RefusedError as error:
        if error.kind != "insufficient_scope":
            raise
        return None


def _done(model: Json, verb: Verb) -> bool:
    if verb == "load":
        return bool(model["state"] == "ready")
    return model["pid"] is None and model["state"] not in ("loading", "evicting")


def _gone(now: Json, before: Json) -> bool:
    """Whether the process that was to go is gone, though the model may be on its way back for others by now."""
    return before["pid"] is not None and now["pid"] != before["pid"] and now["state"] != "evicting"


def _outcome(before: Json, now: Json, verb: Verb) -> str:
    """Return what has come of it; an evict is told apart from one that had nothing to do."""
    if verb == "load":
        return f"{before['name']} is ready"
    if _done(before, "evict"):
        return f"{before['name']} was not loaded"
    return f"{before['name']} was unloaded{_and_again(now)}"


def _and_again(now: Json) -> str:
    """Return that the model comes back, and for whom, or an empty text if it does not."""
    if count := now["waiting"]:
        return f", and is loaded again for {count} waiting request{'s' if count != 1 else ''}"
    return "" if _done(now, "evict") else ", and is loaded again"


def _goes_on(name: str, verb: Verb) -> str:
    """Return what stays in force when only the waiting ends."""
    if verb == "load":
        return f"it stays asked for; `reconcile evict {name}` takes that back"
    return "it goes as soon as it may"


def _refused(now: Json, before: Json, verb: Verb, *, heard: bool) -> str:
    """Return why it will not happen, or an empty text while it may."""
    verdict = now["verdict"]
    if verb == "evict":
        return _kept(now) if heard and now["state"] != "evicting" else ""
    if now["failures"] > before["failures"]:
        return one_line(now["last_error"]) or "it failed to start; see: reconcile logs " + now["name"]
    final = verdict and verdict["outcome"] in ("blocked", "cold") and verdict["reason"] in _FINAL
    return verdict_text(now) if final and (now["wanted"] or heard) else ""


def _kept(now: Json) -> str:
    """Return why a model is not evicted although the loop has heard of it, or an empty text while it may be."""
    verdict = now["verdict"]
    if not verdict or verdict["outcome"] != "keep":
        return ""
    if not now["dismissed"] and verdict["reason"] != "Pinned":
        return "a request, a lease or a load asked for it again"
    return "" if now["active"] else verdict_text(now)


def progress(status: Json, model: Json) -> str:
    """Return what to show while waiting; it has no running clock, so that only changes make a line."""
    action = status["action"]
    if action and action["model"] == model["name"]:
        bound = "about" if action["doing"] == "loading" else "at most"
        about = f", {bound} {action['expected']:.0f} s" if action["expected"] is not None else ""
        what = "saving the state of" if action["doing"] == "saving" else action["doing"]
        return f"{what} {model['name']}{about}"
    busy = f"; {action_text(status).partition(',')[0]}" if action else ""
    verdict = model["verdict"]
    return f"{model['name']} is {model['state']} ({verdict['reason'] if verdict else 'not seen yet'}){busy}"
