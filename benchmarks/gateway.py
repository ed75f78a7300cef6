"""What the gateway adds to requests of a real llama.cpp, beside nginx and llama.cpp's own router; and what it keeps.

All are asked in turn, in rounds, so that whatever else the machine does hits all alike. The engine behind nginx and
behind the gateway is one process; the router has one of the same program and settings, which is asked directly, too.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import firehose, http_load, nginx, quick_engine, router
from benchmarks.manager import manifest, running
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median, percentile
from reconciler.engines.llama.settings import COMMON_ENV
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

DIRECT: Final = "direct"
NGINX: Final = "nginx"
ROUTER: Final = "router"
OURS: Final = "gateway"
#: Where each one's requests end: what it adds is the difference.
BEHIND: Final = "direct to the router's"


_SMALL: Final = http_load.post(PATH, {"model": MODEL, "prompt": "hi", "max_tokens": 1, "temperature": 0})
#: What our own adapter adds to the program's defaults and matters here.
_OPTIONS: Final = (
    *("-c", str(CONTEXT * SLOTS), "-np", str(SLOTS), "-fit", "off"),
    *("--cache-ram", "0", "--ctx-checkpoints", "2", "--no-warmup"),
)


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
            start = quick_engine.rss(manager)
            targets = {DIRECT: Target(port), OURS: Target(manager.port)}
            if (found := nginx.find()) is not None:
                targets[NGINX] = Target(stack.enter_context(nginx.nginx(found, folder / "nginx", port)))
            if program is not None:
                log = folder / "router.log"
                made = router.router(program, weights.parent, log, *_OPTIONS, env=COMMON_ENV)
                targets[ROUTER] = Target(stack.enter_context(made))
                http_load.flood(
                    targets[ROUTER].port, _SMALL, 4, 4
                )  # it loads the model when that is asked for
                targets[BEHIND] = Target(router.engine_port(targets[ROUTER].port))
            _measure(targets)
            yield from _figures(targets)
            stack.close()
            yield quick_engine.stream(manager, echo, ECHO)
            yield quick_engine.memory(manager, start, ECHO)


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
    for target in targets.values():
        http_load.flood(target.port, _SMALL, 4, 200)
    progress(
        f"gateway: {ROUNDS} rounds of {IN_A_ROUND} requests over one connection to each of {_names(targets)}"
    )
    clients = {name: http_load.Client(target.port) for name, target in targets.items()}
    for _ in range(ROUNDS):
        for name, target in targets.items():
            target.alone += [_ask(clients, name, target, _SMALL) for _ in range(IN_A_ROUND)]
    for client in clients.values():
        client.close()
    progress(f"gateway: {FLOODS} rounds of {IN_A_FLOOD} requests over {CONNECTIONS} connections to each")
    for _ in range(FLOODS):
        for target in targets.values():
            seconds, took = http_load.flood(target.port, _SMALL, CONNECTIONS, IN_A_FLOOD)
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
    base = {name: values[BEHIND if name == ROUTER else DIRECT] for name in values}
    added = {name: value - base[name] for name, value in values.items()}
    judged = percent == 50 and ROUTER in values
    return Figure(
        what=f"gateway, {what}",
        measured=f"{in_ms(values[OURS])}, adds {in_ms(added[OURS])}",
        goal=f"adds <= {SHARE:g} x router" if judged else "",
        met=added[OURS] <= SHARE * added[ROUTER] if judged else None,
        reference=_others(
            {
                n: in_ms(v) if n in (DIRECT, BEHIND) else f"{added[n] * 1000:+.3g} ms"
                for n, v in values.items()
            }
        ),
        ratio=values[OURS] / values[DIRECT],
    )


def _others(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items() if name != OURS)


def _names(targets: Mapping[str, Target]) -> str:
    return ", ".join(targets)
