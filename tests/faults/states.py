"""The states of the machine as seen from outside, and how each is reached: a scene that is left standing.

Each function brings the manager of a rig into a state and returns the name of the model that it is about when it is
there. It stays there until `rig.let_go(model)`, unless it says otherwise.
"""

from collections.abc import Callable
from typing import Final

from faults.rig import Rig
from hog import Hog
from manager import SOON
from support import wait_for


def idle(rig: Rig) -> str:
    """Nothing is in flight; a model is loaded, and nobody uses it."""
    rig.loaded("chat")
    return "chat"


def answering(rig: Rig) -> str:
    """A model works on an answer, of which nothing has been sent."""
    rig.loaded("chat")
    rig.hold("chat")
    rig.asks("chat")
    wait_for(lambda: rig.model("chat")["active"], SOON, "a request that is served")
    return "chat"


def streaming(rig: Rig) -> str:
    """A model streams an answer."""
    rig.loaded("chat")
    rig.hold("chat")
    rig.asks("chat", stream=True).flowing()
    return "chat"


def loading(rig: Rig) -> str:
    """A model loads, and somebody waits for it; its process is asked whether it is ready."""
    rig.asks("slow")
    rig.doing("loading", "slow")
    wait_for(lambda: rig.processes("slow"), SOON, "the process of a load")
    return "slow"


def queueing(rig: Rig) -> str:
    """Three wait for a model that loads, one of them for a stream."""
    loading(rig)
    rig.asks("slow")
    rig.asks("slow", stream=True)
    wait_for(lambda: rig.model("slow")["waiting"] == 3, SOON, "three that wait")
    return "slow"


def draining(rig: Rig) -> str:
    """A model is to go, and one more answer is being streamed by it."""
    streaming(rig)
    rig.evict("chat")
    rig.doing("draining", "chat")
    return "chat"


def stopping(rig: Rig) -> str:
    """A model was sent SIGTERM, and is deaf to it: after 1 s it is sent again, after 1.5 s it is killed."""
    rig.loaded("deaf")
    rig.evict("deaf")
    rig.doing("stopping", "deaf")
    return "deaf"


def saving(rig: Rig) -> str:
    """A model saves its state before it goes."""
    rig.loaded("saves")
    rig.hold("saves")
    rig.evict("saves")
    rig.doing("saving", "saves")
    return "saves"


def restoring(rig: Rig) -> str:
    """A model has loaded, and restores its state before it serves."""
    rig.loaded("saves")
    rig.evict("saves")
    wait_for(lambda: not rig.processes("saves"), SOON, "the end of a model that saved its state")
    rig.hold("saves")
    began = said(rig, "saves", "/load begins")
    rig.asks("saves")
    wait_for(lambda: said(rig, "saves", "/load begins") > began, SOON, "a restore that has begun")
    return "saves"


def going_to_sleep(rig: Rig) -> str:
    """A model gives its memory back."""
    began = said(rig, "naps", "/sleep begins")
    one = rig.asks("naps")
    rig.wait_model("naps", state="ready")
    one.answered()
    rig.hold("naps")
    wait_for(lambda: said(rig, "naps", "/sleep begins") > began, SOON, "a model that goes to sleep")
    return "naps"


def asleep(rig: Rig) -> str:
    """A model sleeps."""
    rig.asks("naps").answered()
    rig.wait_model("naps", state="asleep")
    return "naps"


def waking(rig: Rig) -> str:
    """A model that slept takes its memory again; somebody waits for it."""
    asleep(rig)
    rig.hold("naps")
    began = said(rig, "naps", "/wake_up begins")
    rig.asks("naps")
    wait_for(lambda: said(rig, "naps", "/wake_up begins") > began, SOON, "a model that wakes")
    return "naps"


def settling(rig: Rig) -> str:
    """A model has gone, and its memory is not seen to be back: another program has taken it meanwhile; for 10 s."""
    rig.loaded("big")
    rig.evict("big")
    rig.doing("stopping", "big")  # it is deaf, so that there is time
    hog = Hog()
    rig.hogs.append(hog)
    hog.hold(600)
    rig.doing("settling", "big")
    return "big"


def leased(rig: Rig) -> str:
    """A batch job has a lease of a model."""
    rig.loaded("chat")
    asked = {"model": "chat", "owner": "batch", "for": "1h", "wait": True}
    answer = rig.client.post("/api/v1/leases", json=asked).json()
    assert answer["state"] == "held"
    rig.lease = answer["id"]
    return "chat"


def replacing(rig: Rig) -> str:
    """A model's settings were edited, and its last stream ends before its process goes."""
    streaming(rig)
    rig.witnesses.pop("chat")
    rig.use(rig.edited("chat", "--edited"))
    rig.doing("draining", "chat")
    return "chat"


def said(rig: Rig, model: str, words: str) -> int:
    """Return how often the server of a model has written `words` into its log."""
    log = rig.state_dir / "logs" / f"{model}.log"
    return log.read_text().count(words) if log.exists() else 0


STATES: Final[dict[str, Callable[[Rig], str]]] = {
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
    "settling": settling,
    "leased": leased,
    "replacing": replacing,
}
