"""Faults of a model's process that need more than one act: memory, logs, ports, deafness, loops of crashes."""

import subprocess
import time
from collections.abc import Callable
from typing import Any, Final

from faults.cells import Cell
from faults.courses import SCENES
from faults.rig import Rig, stranger
from faults.sick import SickRig
from manager import SOON, Sampler, running
from small_machine import small_machine
from support import healthy, wait_for

#: MiB of the control group that a model is moved into, and what it takes there.
GROUP_MIB, MORE_MIB = 60, 200
#: Bytes that the logs of one model may take on disk, and MiB that are written by one that floods them.
LOG_BYTES: Final = 8 << 20
FLOOD_MIB: Final = 60
#: Seconds for which a loop of crashes is watched, and how many starts there are at most: after 0, 2, 6, 14, 30 s.
WATCHED: Final = 40.0
STARTS: Final = 5


def of_model(play: Callable[[SickRig], None]) -> Callable[[Rig], None]:
    """Return `play` for the rigs of this family."""

    def run(rig: Rig) -> None:
        assert isinstance(rig, SickRig)
        play(rig)

    return run


def starved(state: str) -> Callable[[Rig], None]:
    """The kernel ends the process for want of memory in a group of its own; the machine has plenty."""

    def play(rig: SickRig) -> None:
        model = SCENES[state](rig)
        under_way = [one for one in rig.asked if one.end is None]
        pid = rig.the(model)
        with small_machine(GROUP_MIB) as group:
            (group.folder / "cgroup.procs").write_text(str(pid))
            rig.looked_at()
            rig.order(model, f"grow {MORE_MIB}")
            for one in under_way:
                end = one.ended()
                assert end.what == ("load_failed" if state == "loading" else "upstream_error"), end
            found = rig.said_of(model, "KilledByKernel")
            assert "killed by SIGKILL (9); the kernel ended it, for memory had run out" in found["error"]
        rig.let_go(model)
        rig.client.post(f"/api/v1/models/{model}/forget").raise_for_status()
        assert rig.asks(model).answered().by != pid

    return of_model(play)


def flooded(state: str) -> Callable[[Rig], None]:
    """The log grows by 60 MiB in lines of 200 bytes; then the process ends."""

    def play(rig: SickRig) -> None:
        model = SCENES[state](rig)
        under_way = [one for one in rig.asked if one.end is None]
        pid = rig.the(model)
        log = rig.state_dir / "logs" / f"{model}.log"
        wait_for(lambda: f"fake engine {pid} listening" in log.read_text(), SOON, "its first words")
        rig.order(model, f"flood {FLOOD_MIB}", "exit 3")
        for one in under_way:
            assert one.ended().what == ("load_failed" if state == "loading" else "upstream_error"), one.end
        found = rig.said_of(model, "exit code 3")
        assert found["error"].endswith("its last line: these are its last words"), found
        wait_for(lambda: log.stat().st_size <= LOG_BYTES // 2, SOON, "a bounded log")
        kept = [
            file.read_text()
            for file in (log.with_name(f"{log.name}.head"), log.with_name(f"{log.name}.1"), log)
        ]
        assert sum(len(text) for text in kept) <= LOG_BYTES
        assert f"fake engine {pid} listening on" in kept[0], "how it started"
        assert "these are its last words" in kept[1] + kept[2]
        assert "these are its last words" in rig.cli("logs", model, "-n", "2").stdout
        rig.let_go(model)
        rig.client.post(f"/api/v1/models/{model}/forget").raise_for_status()
        rig.asks(model).answered()

    return of_model(play)


def taken_before(rig: SickRig) -> None:
    """Somebody else listens on the port of a model before it is loaded."""
    with stranger(rig.ports[-1]) as other:
        end = rig.asks("fixed").ended()
        assert end.kind == "told", end
        assert str(other.pid) in str(rig.model("fixed")["verdict"]) + str(rig.model("fixed")["last_error"])
        assert running(other.pid), "a stranger was touched"
    rig.client.post("/api/v1/models/fixed/forget").raise_for_status()
    rig.asks("fixed").answered()


def taken_while_it_serves(rig: SickRig) -> None:
    """A model closes its port, and somebody else listens there: he gets no request of ours."""
    rig.asks("fixed").answered()
    pid = rig.order("fixed", "close")
    port = rig.ports[-1]
    wait_for(lambda: not healthy(port), SOON, "a closed port")
    with stranger(port) as other:
        rig.said_of("fixed", "model hangs")
        end = rig.asks("fixed").ended()
        assert end.by != other.pid, "a stranger answered"
        assert end.kind == "told", end
        wait_for(lambda: not rig.processes("fixed"), SOON, "the end of the one without a port")
        assert not running(pid)
        assert running(other.pid), "a stranger was touched"
    rig.client.post("/api/v1/models/fixed/forget").raise_for_status()
    rig.asks("fixed").answered()


def never_both(rig: SickRig) -> None:
    """Two models of which one fits; the one that has to go ignores SIGTERM."""
    models = rig.standard()
    big: dict[str, Any] = {"memory": {"steady": "1200MiB"}}
    rig.edit({**models, "deaf": models["deaf"] | big, "chat": models["chat"] | big})
    rig.asks("deaf").answered()
    pid = rig.the("deaf")
    with Sampler({name: rig.tag(name) for name in ("deaf", "chat")}) as sampler:
        rig.asks("chat").answered()
    assert sampler.most(["deaf", "chat"]) == 1, "both ran at once"
    assert sampler.of("deaf"), "nobody looked in time"
    assert not running(pid)
    rig.edit(rig.standard())


def deaf_and_idle(rig: SickRig) -> None:
    """SIGTERM by a stranger to a model that ignores it."""
    rig.loaded("deaf")
    pid = rig.witnesses["deaf"]
    subprocess.run(["kill", "-TERM", str(pid)], check=True)
    assert rig.asks("deaf").answered().by == pid


def loops(rig: SickRig) -> None:
    """A model that is wanted ends at once, each time, for most of a minute."""
    models = rig.edited("chat", "--exit", "1")
    rig.edit(models | {"chat": models["chat"] | {"residency": "warm"}})
    assert rig.asks("chat").ended().what == "load_failed"
    until = time.monotonic() + WATCHED
    wait_for(lambda: time.monotonic() >= until, WATCHED + 1, "most of a minute")
    starts = [line for line in rig.cell_log() if line.get("event") == "load" and line["model"] == "chat"]
    assert 3 <= len(starts) <= STARTS, starts
    assert "exit code 1" in rig.model("chat")["last_error"]
    assert rig.model("chat")["retry_in"] > 60 - WATCHED - 10, "no more than one start more in that minute"
    rig.edit(rig.standard())


CELLS: Final = (
    Cell(
        "model-starved",
        "idle",
        "The status says that the kernel ended it for want of memory.",
        starved("idle"),
    ),
    Cell("model-starved", "loading", "The request gets `load_failed` with that reason.", starved("loading")),
    Cell("model-starved", "answering", "The request gets `upstream_error`.", starved("answering"), slow=True),
    Cell(
        "model-starved", "streaming", "The stream ends with an error event.", starved("streaming"), slow=True
    ),
    Cell(
        "model-floods-log",
        "idle",
        "The log keeps 8 MiB: how it started, and its last words.",
        flooded("idle"),
    ),
    Cell(
        "model-floods-log",
        "loading",
        "The same; the request gets `load_failed`.",
        flooded("loading"),
        slow=True,
    ),
    Cell(
        "model-floods-log",
        "streaming",
        "The same; the stream ends with an error.",
        flooded("streaming"),
        slow=True,
    ),
    Cell(
        "model-port-taken",
        "cold",
        "The request is told whose process has the port; nothing happens to that one.",
        of_model(taken_before),
    ),
    Cell("model-deaf", "idle", "Nothing: the same process serves on.", of_model(deaf_and_idle)),
    Cell(
        "model-deaf",
        "making-room",
        "Who needs the room is loaded after it was killed, never beside it; its request is answered.",
        of_model(never_both),
    ),
    Cell(
        "model-crash-loop",
        "idle",
        "It is started at most six times in the first minute; the status says why and when it is tried again.",
        of_model(loops),
        slow=True,
    ),
)
#: Under a manager that loses patience soon.
NERVOUS: Final = (
    Cell(
        "model-port-taken",
        "idle",
        "No request reaches the stranger who took the port; it is told so, and nothing happens to him.",
        of_model(taken_while_it_serves),
    ),
)
