"""The process of a model lives and does not serve: it is stopped, hangs, lies, talks nonsense or closes its port.

These cells run under a manager that loses patience after a second instead of half a minute.
"""

from typing import Final

from faults.cells_model_special import NERVOUS
from faults.courses import Course, cells
from faults.sick import Act, SickRig, ordered, stopped

HANGS: Final = "model hangs"


def _restoring(act: Act) -> Course:
    """Return what happens when a restore is not answered; the next process is not held up by the test."""

    def until_cold(rig: SickRig, model: str) -> None:
        act(rig, model)
        rig.said_of(model, "its state was not restored")
        rig.let_go(model)

    return Course(
        "restoring",
        "It is ended 10 s after its time; the request gets a new process, which begins without the state.",
        "answered",
        slow=True,
        act=until_cold,
    )


#: Whether it was stopped or hangs is all the same to who waits for it.
_WAKING: Final = Course(
    "waking",
    "It is found that it does not wake; the request gets a new process.",
    "answered",
    says="it did not wake",
    heals=True,
    tires=True,
    slow=True,
)

_STOPPED: Final = cells(
    "model-stopped",
    stopped,
    Course(
        "starting",
        "The load is given up after `timeouts.load`; the request gets `load_failed`.",
        "load_failed",
        says="load failed",
        slow=True,
    ),
    Course(
        "loading",
        "The load is given up after `timeouts.load`; the request gets `load_failed`.",
        "load_failed",
        says="load failed",
    ),
    Course("idle", "It is found although nobody asks; the next request gets a new process.", says=HANGS),
    Course("answering", "The request gets `model_hung`; a new process serves.", "model_hung", says=HANGS),
    Course(
        "streaming", "The stream ends with an error event `model_hung`.", "model_hung", says=HANGS, slow=True
    ),
    Course(
        "draining",
        "The stream ends with an error event `model_hung`; the model goes, as asked.",
        "model_hung",
        "gone",
        slow=True,
    ),
    Course(
        "saving", "The state is given up after its time; the model goes, as asked.", after="gone", slow=True
    ),
    _restoring(stopped),
    Course(
        "going-to-sleep",
        "A request that comes waits until it is stopped instead of sleeping, 10 s at most, and gets a new process.",
        tires=True,
        slow=True,
    ),
    Course(
        "asleep",
        "The next request finds that it does not wake, and gets a new process.",
        says="",
        tires=True,
        slow=True,
    ),
    _WAKING,
)

_HANGS: Final = cells(
    "model-hangs",
    ordered("hang"),
    Course(
        "loading",
        "The load is given up after `timeouts.load`; the request gets `load_failed`.",
        "load_failed",
        says="load failed",
        slow=True,
    ),
    Course(
        "idle", "The next request gets `model_hung`, and the one after it is answered.", "model_hung", asks=1
    ),
    Course(
        "answering",
        "The request gets `model_hung`; a new process serves.",
        "model_hung",
        says=HANGS,
        slow=True,
    ),
    Course("streaming", "The stream ends with an error event `model_hung`.", "model_hung", says=HANGS),
    Course(
        "draining",
        "The stream ends with an error event `model_hung`; the model goes, as asked.",
        "model_hung",
        "gone",
    ),
    Course("saving", "The state is given up after its time; the model goes, as asked.", after="gone"),
    _restoring(ordered("hang")),
    _WAKING,
)

_LIES: Final = cells(
    "model-lies",
    ordered("hang-posts"),
    Course(
        "loading",
        "It says that it is ready; the request gets `model_hung`, and the next one a new process.",
        "model_hung",
        heals=True,
        slow=True,
    ),
    Course(
        "idle",
        "Its health address says yes all the time; the request gets `model_hung` all the same.",
        "model_hung",
        asks=1,
        says=HANGS,
        slow=True,
    ),
    Course(
        "asleep",
        "It does not wake; the request waits on for a new process and is answered.",
        "answered",
        asks=1,
        says="it did not wake",
        tires=True,
        slow=True,
    ),
)

_FAILS: Final = cells(
    "model-fails",
    ordered("fail-posts"),
    Course(
        "idle",
        "Three requests get its own 500; then it is found out, and a new process serves.",
        "500",
        asks=3,
        says=HANGS,
    ),
    Course("saving", "The model goes, as asked; its next load is a cold start.", after="gone", slow=True),
)

_GARBAGE: Final = cells(
    "model-garbage",
    ordered("garbage"),
    Course(
        "loading",
        "The load is given up after `timeouts.load`; the request gets `load_failed`.",
        "load_failed",
        says="load failed",
        slow=True,
    ),
    Course(
        "idle",
        "Three requests get `upstream_error`; then it is found out, and a new process serves.",
        "upstream_error",
        asks=3,
        says=HANGS,
        slow=True,
    ),
    Course(
        "streaming",
        "The stream ends with an error event `upstream_error`; after two more a new process serves.",
        "upstream_error",
        asks=2,
        heals=True,
        says=HANGS,
    ),
)

_CLOSES: Final = cells(
    "model-closes-port",
    ordered("close"),
    Course("loading", "The request gets `load_failed`.", "load_failed", slow=True),
    Course(
        "idle",
        "It is found although nobody asks; the next request gets a new process.",
        says=HANGS,
        slow=True,
    ),
    Course(
        "answering",
        "The answer comes over the open connection; a new process serves the next one.",
        "answered",
        heals=True,
        says=HANGS,
        slow=True,
    ),
    Course(
        "streaming",
        "The stream is whole; a new process serves the next one.",
        "answered",
        heals=True,
        says=HANGS,
        slow=True,
    ),
    Course("draining", "The stream is whole; the model goes, as asked.", "answered", "gone", heals=True),
    Course(
        "asleep",
        "The next request finds that it does not wake, and gets a new process.",
        tires=True,
        slow=True,
    ),
)

CELLS: Final = (*_STOPPED, *_HANGS, *_LIES, *_FAILS, *_GARBAGE, *_CLOSES, *NERVOUS)
