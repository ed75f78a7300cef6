"""The life of a worker: answer that it loads, construct the class, serve, end."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any

from .device import limit_frameworks
from .entry import check_role, construct, import_class
from .errors import ENTRY_LINE, FAILED_LINE, EntryError, name_of, say
from .nap import stay_awake
from .server import Server
from .service import Service
from .settings import Settings, parse
from .stats import Stats
from .stopping import on_signal

#: Connections at least; more where larger batches are wanted.
_CONNECTIONS = 256
#: Seconds until answers that are made are sent.
_LAST_ANSWERS = 1.0


def main(argv: Sequence[str]) -> int:
    """Serve until a signal ends it. Returns 0, or 1 if the class cannot be served."""
    settings = parse(argv)
    faulthandler.enable()
    if slow := stay_awake(f"serves {settings.name}"):
        say(f"worker: {slow}")
    stats = Stats()
    connections = max(_CONNECTIONS, 2 * settings.batch_max + 64)
    try:
        server = Server((settings.host, settings.port), settings.role, connections, stats)
    except OSError as error:
        say(f"{ENTRY_LINE}its port {settings.port} cannot be opened: {error.strerror or error}")
        return 1
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    # Until the class is there, SIGTERM keeps its default: it ends the process at once, whatever library is loading.
    model = _construct(settings)
    if model is None:
        return 1
    service = Service(model, settings, stats)

    def stop() -> None:
        server.stopping = True
        service.stop()

    on_signal(stop)
    server.service = service
    say(f"worker: {settings.entry} serves {settings.role} on port {settings.port}")
    service.run()
    return _end(server, model)


def _construct(settings: Settings) -> Any:
    """Return the constructed object, or None after saying why there is none."""
    try:
        cls = import_class(settings.entry, os.getcwd())
        check_role(cls, settings.role)
        model = construct(cls, settings)
        limit_frameworks(settings.threads, settings.memory_limit)
    except EntryError as error:
        if error.__cause__ is not None:
            traceback.print_exception(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        say(f"{ENTRY_LINE}{error}")
        return None
    except BaseException as error:  # sys.exit() in a module is a failure to load as well
        traceback.print_exc()
        say(f"{FAILED_LINE}{settings.entry}: {name_of(error)}")
        return None
    return model


def _end(server: Server, model: Any) -> int:
    """Let the last answers be sent, and the class close what it has open."""
    until = time.monotonic() + _LAST_ANSWERS
    while server.stats.active and time.monotonic() < until:
        time.sleep(0.005)
    close = getattr(model, "close", None)
    if close is not None:
        try:
            close()
        except Exception:  # the process ends anyway
            traceback.print_exc()
    return 0
