"""What the gateway adds to requests of a real llama.cpp, beside nginx and llama.cpp's own router; and what it keeps.

All are asked in turn, in rounds, so that whatever else the machine does hits all alike. The engine behind nginx and
behind the gateway is one process; the router has a process of the same program and settings.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import firehose, http_load, nginx, router
from benchmarks.manager import Manager, manifest, running
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median, percentile
from support import free_port
from tiny_gguf import write_llama

MODEL: Final = "tiny"
ECHO: Final = "echo"
PATH: Final = "/v1/completions"
#: Large enough that the length of a small request proves that it fits.
CONTEXT: Final = 4096
SLOTS: Final = 4
ROUNDS: Final = 20
#: Requests of each round over one connection; over many, of one of few rounds.
IN_A_ROUND: Final = 50
FLOODS: Final = 4
IN_A_FLOOD: Final = 1_000
CONNECTIONS: Final = 32
STREAMS: Final = 5
TOKENS: Final = 400
#: The gateway may add half of what the router adds.
SHARE: Final = 0.5
REQUESTS: Final = 100_000
WARM_UP: Final = 10_000
MOST_SECONDS: Final = 600.0
GOAL_GROWTH: Final = 4 << 20
MIB: Final = 1 << 20

DIRECT: Final = "direct"
NGINX: Final = "nginx"
ROUTER: Final = "router"
OURS: Final = "gateway"


@dataclass
class Target:
    """One address that answers, and the seconds its answers took."""

    port: int
    alone: list[float] = field(default_factory=list)
    crowded: list[float] = field(default_factory=list)
    #: Requests a second of each flood, chunks a second of each stream.
    rates: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)


def run() -> Iterator[Figure]:
    """Measure against llama.cpp, then against an engine that takes no time."""
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        folder = Path(name)
        port, echo = free_port(), free_port()
        weights = write_llama(folder / "weights" / f"{MODEL}.gguf")
        program = router.find()
        text = manifest({MODEL: _model(weights, port, program), ECHO: _echo(echo)})
        (folder / "models.yaml").write_text(text, encoding="utf-8")
        with running(folder / "models.yaml") as manager, ExitStack() as stack:
            manager.wait(MODEL, "ready")
            manager.wait(ECHO, "ready")
            start = _rss(manager)
            targets = {DIRECT: Target(port), OURS: Target(manager.port)}
            if (found := nginx.find()) is not None:
                targets[NGINX] = Target(stack.enter_context(nginx.nginx(found, folder / "nginx", port)))
            if program is not None:
                options = ("-c", str(CONTEXT * SLOTS), "-np", str(SLOTS), "--log-disable")
                made = router.router(program, weights.parent, folder / "router.log", *options)
                targets[ROUTER] = Target(stack.enter_context(made))
            _measure(targets)
            yield from _figures(targets)
            stack.close()
            yield _firehose(manager, echo)
            yield _memory(manager, start)


def _model(weights: Path, port: int, program: str | None) -> dict[str, Any]:
    own = {} if program is None else {"command": [program]}
    return {
        **own,
        "engine": "llama.cpp",
        "weights": str(weights),
        "role": "completion",
        "context": {"max_tokens": CONTEXT, "slots": SLOTS},
        "memory": {"steady": "200MiB"},
        "residency": "pinned",
        "port": port,
    }


def _echo(port: int) -> dict[str, Any]:
    return {
        "engine": "command",
        "command": [sys.executable, firehose.__file__, "${port}"],
        "port": port,
        "memory": {"steady": "64MiB"},
        "residency": "pinned",
        "health": "/v1/models",
    }


def _measure(targets: Mapping[str, Target]) -> None:
    small = http_load.post(PATH, {"model": MODEL, "prompt": "hi", "max_tokens": 1, "temperature": 0})
    for target in targets.values():  # the router loads its model at the first request
        http_load.flood(target.port, small, 4, 200)
    progress(
        f"gateway: {ROUNDS} rounds of {IN_A_ROUND} requests over one connection to each of {_names(targets)}"
    )
    clients = {name: http_load.Client(target.port) for name, target in targets.items()}
    for _ in range(ROUNDS):
        for name, target in targets.items():
            target.alone += [_ask(clients, name, target, small) for _ in range(IN_A_ROUND)]
    for client in clients.values():
        client.close()
    progress(f"gateway: {FLOODS} rounds of {IN_A_FLOOD} requests over {CONNECTIONS} connections to each")
    for _ in range(FLOODS):
        for target in targets.values():
            seconds, took = http_load.flood(target.port, small, CONNECTIONS, IN_A_FLOOD)
            target.rates.append(IN_A_FLOOD / seconds)
            target.crowded += took
    progress(f"gateway: {STREAMS} streams of {TOKENS} tokens from each")
    stream = http_load.post(PATH, _streaming())
    for _ in range(STREAMS):
        for target in targets.values():
            client = http_load.Client(target.port)
            target.chunks.append(TOKENS / client.ask(stream))
            client.close()


def _streaming() -> dict[str, Any]:
    # Tokens of random weights end a text at random: the end is forbidden.
    return {"model": MODEL, "prompt": "hi", "max_tokens": TOKENS, "stream": True, "ignore_eos": True}


def _ask(clients: dict[str, http_load.Client], name: str, target: Target, request: bytes) -> float:
    """Ask over the kept connection; servers close one after so many requests."""
    try:
        return clients[name].ask(request)
    except (ConnectionError, http_load.EndedError):
        clients[name].close()
        clients[name] = http_load.Client(target.port)
        return clients[name].ask(request)


def _figures(targets: Mapping[str, Target]) -> Iterator[Figure]:
    direct, ours, peer = targets[DIRECT], targets[OURS], targets.get(ROUTER)
    for what, percent in (("median", 50.0), ("p99", 99.0)):
        yield _latency(
            f"one connection, {what}", {n: percentile(t.alone, percent) for n, t in targets.items()}, percent
        )
    for what, percent in (("median", 50.0), ("p99", 99.0)):
        values = {n: percentile(t.crowded, percent) for n, t in targets.items()}
        yield Figure(
            what=f"gateway, {CONNECTIONS} connections, {what}",
            measured=in_ms(values[OURS]),
            reference=_others({n: in_ms(v) for n, v in values.items()}),
            ratio=values[OURS] / values[DIRECT],
        )
    rates = {name: median(target.rates) for name, target in targets.items()}
    yield Figure(
        what=f"gateway, {CONNECTIONS} connections, requests/s",
        measured=f"{rates[OURS]:.0f}",
        goal="" if peer is None else ">= router",
        met=None if peer is None else rates[OURS] >= rates[ROUTER],
        reference=_others({name: f"{rate:.0f}" for name, rate in rates.items()}),
        ratio=rates[OURS] / rates[DIRECT],
    )
    chunks = {name: median(target.chunks) for name, target in targets.items()}
    yield Figure(
        what="gateway, one stream, chunks/s",
        measured=f"{chunks[OURS]:.0f}",
        reference=_others({name: f"{rate:.0f}" for name, rate in chunks.items()}),
        ratio=median(ours.chunks) / median(direct.chunks),
    )


def _latency(what: str, values: Mapping[str, float], percent: float) -> Figure:
    added = {name: value - values[DIRECT] for name, value in values.items()}
    judged = percent == 50 and ROUTER in values
    return Figure(
        what=f"gateway, {what}",
        measured=f"{in_ms(values[OURS])}, adds {in_ms(added[OURS])}",
        goal=f"adds <= {SHARE:g} x router" if judged else "",
        met=added[OURS] <= SHARE * added[ROUTER] if judged else None,
        reference=_others({n: in_ms(v) if n == DIRECT else f"+{in_ms(added[n])}" for n, v in values.items()}),
        ratio=values[OURS] / values[DIRECT],
    )


def _others(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items() if name != OURS)


def _names(targets: Mapping[str, Target]) -> str:
    return ", ".join(targets)


def _firehose(manager: Manager, echo: int) -> Figure:
    """Measure how fast a stream passes whose engine takes no time for it."""
    progress(f"gateway: {STREAMS} streams of {firehose.EVENTS} events from an engine that takes no time")
    request = http_load.post(PATH, {"model": ECHO, "prompt": "hi", "stream": True})
    rates: dict[int, list[float]] = {manager.port: [], echo: []}
    for _ in range(STREAMS):
        for port, taken in rates.items():
            client = http_load.Client(port)
            taken.append(firehose.EVENTS / client.ask(request))
            client.close()
    ours, direct = (statistics.median(taken) for taken in rates.values())
    return Figure(
        what=f"gateway, a stream of {firehose.EVENTS:,} events at once",
        measured=f"{ours:,.0f} events/s",
        reference=f"direct: {direct:,.0f} events/s",
        ratio=ours / direct,
    )


def _memory(manager: Manager, start: int) -> Figure:
    progress(f"gateway: {REQUESTS} requests, and what memory they leave behind")
    request = http_load.post(PATH, {"model": ECHO, "prompt": "hi"})
    http_load.flood(manager.port, request, CONNECTIONS, WARM_UP, MOST_SECONDS)
    before = _rss(manager)
    seconds, _ = http_load.flood(manager.port, request, CONNECTIONS, REQUESTS - WARM_UP, MOST_SECONDS)
    after, rate = _rss(manager), (REQUESTS - WARM_UP) / seconds
    return Figure(
        what=f"gateway, memory after {REQUESTS:,} requests",
        measured=f"{after / MIB:.1f} MiB, grown by {(after - before) / MIB:+.1f} MiB",
        goal=f"<= {GOAL_GROWTH / MIB:g} MiB",
        met=after - before <= GOAL_GROWTH,
        reference=f"after {WARM_UP:,}: {before / MIB:.1f}, ready: {start / MIB:.1f} MiB ({rate:.0f} requests/s)",
        ratio=after / before,
    )


def _rss(manager: Manager) -> int:
    rss: int = psutil.Process(manager.pid).memory_info().rss
    return rss
