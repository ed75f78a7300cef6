"""The states of the machine as seen from outside, and how each is reached: a scene that is left standing.

Each function brings the manager of a rig into a state and returns when it is there; nothing in it ends by itself
before what a cell does next, unless it says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from faults.rig import Rig
from manager import SOON
from support import wait_for


@dataclass(frozen=True)
class Scene:
    """A state that was reached. `let_go` ends what holds it there."""

    #: The model it is about.
    model: str
    let_go: Callable[[], object] = lambda: None


def idle(rig: Rig) -> Scene:
    """Nothing is in flight; a model is loaded, and nobody uses it."""
    rig.loaded("chat")
    return Scene("chat")


def answering(rig: Rig) -> Scene:
    """A model works on an answer, of which nothing has been sent."""
    rig.loaded("thinks")
    rig.asks("thinks")
    wait_for(lambda: rig.model("thinks")["active"], SOON, "a request that is served")
    return Scene("thinks")


def streaming(rig: Rig) -> Scene:
    """A model streams an answer, for 8 s."""
    rig.loaded("chat")
    rig.asks("chat", stream=True).flowing()
    return Scene("chat")


def loading(rig: Rig) -> Scene:
    """A model loads, and somebody waits for it; its process is asked whether it is ready."""
    rig.asks("slow")
    rig.doing("loading", "slow")
    wait_for(lambda: rig.processes("slow"), SOON, "the process of a load")
    return Scene("slow", lambda: rig.gate("slow").touch())


def draining(rig: Rig) -> Scene:
    """A model is to go, and one more answer is being streamed by it, for 0.8 s."""
    rig.loaded("brief")
    rig.asks("brief", stream=True).flowing()
    rig.evict("brief")
    rig.doing("draining", "brief")
    return Scene("brief")


def stopping(rig: Rig) -> Scene:
    """A model was sent SIGTERM, and is deaf to it."""
    rig.loaded("deaf")
    rig.evict("deaf")
    rig.doing("stopping", "deaf")
    return Scene("deaf")


def saving(rig: Rig) -> Scene:
    """A model saves its state before it goes, for 0.7 s."""
    rig.loaded("saves")
    rig.evict("saves")
    rig.doing("saving", "saves")
    return Scene("saves")


def restoring(rig: Rig) -> Scene:
    """A model has loaded, and restores its state before it serves, for 0.7 s."""
    saving(rig)
    wait_for(lambda: not rig.processes("saves"), SOON, "the end of a model that saved its state")
    rig.asks("saves")
    log = rig.state_dir / "logs" / "saves.log"
    wait_for(lambda: "/load begins" in log.read_text(), SOON, "a restore that has begun")
    return Scene("saves")


def going_to_sleep(rig: Rig) -> Scene:
    """A model gives its memory back, for 0.7 s."""
    rig.asks("naps").answered()
    rig.doing("stopping", "naps")
    return Scene("naps")


def asleep(rig: Rig) -> Scene:
    """A model sleeps."""
    rig.asks("naps").answered()
    rig.wait_model("naps", state="asleep")
    return Scene("naps")


def waking(rig: Rig) -> Scene:
    """A model that slept takes its memory again, for 0.7 s; somebody waits for it."""
    asleep(rig)
    rig.asks("naps")
    rig.doing("loading", "naps")
    return Scene("naps")


def queueing(rig: Rig) -> Scene:
    """Three wait for a model that loads, one of them for a stream."""
    scene = loading(rig)
    rig.asks("slow")
    rig.asks("slow", stream=True)
    wait_for(lambda: rig.model("slow")["waiting"] == 3, SOON, "three that wait")
    return scene


STATES: Final[dict[str, Callable[[Rig], Scene]]] = {
    "idle": idle,
    "answering": answering,
    "streaming": streaming,
    "loading": loading,
    "queueing": queueing,
    "draining": draining,
    "stopping": stopping,
    "saving": saving,
    "restoring": restoring,
    "going-to-sleep": going_to_sleep,
    "asleep": asleep,
    "waking": waking,
}
