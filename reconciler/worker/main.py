"""The life of a worker: answer that it loads, construct the class, serve, end."""

from __future__ import annotations

import faulthandler
import os
import platform
import threading
import time
from collections.abc import Sequence

from .device import limit_frameworks
from .entry import check_methods, check_role, check_state, construct, import_class
from .errors import ENTRY_LINE, FAILED_LINE, LOADS_LINE, EntryError, name_of, say, trace_of
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
    say(f"{LOADS_LINE}{settings.entry} with Python {platform.python_version()}")
    # Until the class is there, SIGTERM keeps its default: it ends the process at once, whatever library is loading.
    service = _construct(settings, stats)
    if service is None:
        return 1

    def stop() -> None:
        server.stopping = True
        service.stop()

    on_signal(stop)
    server.service = service
    say(f"worker: {settings.entry} serves {settings.role} on port {settings.port}")
    service.run()
    _end(server, service)
    return 0


def _construct(settings: Settings, stats: Stats) -> Service | None:
    """Return the constructed object, ready to be asked, or None after saying why there is none."""
    doing = "importing its module"
    try:
        cls = import_class(settings.entry, os.getcwd())
        doing = "constructing its class"
        check_role(cls, settings.role)
        check_state(cls, settings.saves)
        model = construct(cls, settings)
        check_methods(model)
        limit_frameworks(settings.threads, settings.memory_limit)
        return Service(model, settings, stats)
    except EntryError as error:
        if error.__cause__ is not None:
            say(trace_of(error.__cause__))
        say(f"{ENTRY_LINE}{error}")
    except BaseException as error:  # sys.exit() in a module is a failure to load as well
        say(trace_of(error))
        say(f"{FAILED_LINE}{doing} failed: {settings.entry}: {name_of(error)}")
    return None


def _end(server: Server, service: Service) -> None:
    """Let the last answers be sent, and the class close what it has open."""
    until = time.monotonic() + _LAST_ANSWERS
    while server.stats.active and time.monotonic() < until:
        time.sleep(0.005)
    try:
        close = getattr(service.model, "close", None)
        if close is not None:
            close()
    except BaseException as error:  # the process ends anyway
        say(trace_of(error))
