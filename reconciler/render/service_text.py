"""How a service is, as people read it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from reconciler.core.words import counted
from reconciler.render.paint import one_line

Json = Mapping[str, Any]


def service_text(document: Json) -> str:
    """Return the lines of `reconcile service status`, without a final newline; times are local."""
    kind = f"{document['manager']}, {'of the system' if document['scope'] == 'system' else 'of this user'}"
    lines = [f"{document['name']}  {kind}", *(f"{key:<11}{one_line(text)}" for key, text in _rows(document))]
    return "\n".join(lines)


def _rows(document: Json) -> Iterator[tuple[str, str]]:
    yield "unit", f"{document['path']}  {_file(document)}"
    if document["problem"]:
        yield "problem", document["problem"]
    if not document["installed"]:
        return
    yield "state", _state(document)
    if document["says"]:
        yield "says", document["says"]
    if document["restarts"] is not None:
        yield "restarts", f"{counted(document['restarts'], 'restart')} that nobody asked for"
    if document["last_exit"] is not None:
        at = f", {_time(document['last_exit_at'])}" if document["last_exit_at"] is not None else ""
        yield "last end", f"{document['last_exit']}{at}"
    for key, label in (("manifest", "manifest"), ("state_dir", "kept in"), ("listen", "listen")):
        if document[key] is not None:
            yield label, document[key]


def _file(document: Json) -> str:
    if document["foreign"]:
        return "is somebody else's: not written by reconcile"
    if not document["installed"]:
        return "not installed: reconcile service install"
    return (
        "as it should be"
        if document["current"]
        else "differs from what would be written: reconcile service install"
    )


def _state(document: Json) -> str:
    since = f" since {_time(document['since'])}" if document["since"] is not None else ""
    pid = f" (pid {document['pid']})" if document["pid"] is not None else ""
    starts = {True: "; starts by itself", False: "; does not start by itself", None: ""}[document["enabled"]]
    return f"{document['state']}{since}{pid}{starts}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
