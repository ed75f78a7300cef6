"""The process of a model is stopped for a while, leaves something behind, or is slow, in every state."""

from typing import Final

from faults.cells_model import KILLED
from faults.courses import Course, cells
from faults.sick import ordered, orphaned, stopped, stopped_for_a_while

CELLS: Final = (
    *cells(
        "model-paused",
        stopped_for_a_while,
        Course(
            "starting",
            "The load takes longer; the request is answered.",
            "answered",
            "same",
            heals=True,
            slow=True,
        ),
        Course("loading", "The load takes longer; the request is answered.", "answered", "same", heals=True),
        Course("idle", "Nothing: the same process serves on.", "", "same", heals=True),
        Course("answering", "The answer comes later.", "answered", "same", heals=True),
        Course(
            "streaming", "The stream stands still for a while, and is whole.", "answered", "same", heals=True
        ),
        Course(
            "draining", "The stream is whole; then the model goes, as asked.", "answered", "gone", heals=True
        ),
        Course("stopping", "It is killed when its time is over.", after="gone", act=stopped),
        Course(
            "saving", "The state is saved; then the model goes, as asked.", "", "gone", heals=True, slow=True
        ),
        Course(
            "restoring",
            "The restore takes longer; the request is answered.",
            "answered",
            "same",
            heals=True,
            slow=True,
        ),
        Course("asleep", "Nothing: the model sleeps on, and wakes for the next request.", "", "same"),
        Course("waking", "The waking takes longer; the request is answered.", "answered", "same", heals=True),
    ),
    *cells(
        "model-leaves-worker",
        orphaned("fork"),
        Course(
            "loading",
            "The worker is ended with it; the request gets `load_failed`.",
            "load_failed",
            says=KILLED,
        ),
        Course(
            "idle",
            "The worker is ended before anything else is done; the next request loads the model.",
            says=KILLED,
        ),
        Course(
            "streaming",
            "The stream ends with `upstream_error`; the worker is ended.",
            "upstream_error",
            says=KILLED,
            slow=True,
        ),
        Course(
            "draining",
            "The stream ends with `upstream_error`; model and worker are gone.",
            "upstream_error",
            "gone",
        ),
    ),
    *cells(
        "model-leaves-socket",
        orphaned("inherit"),
        Course(
            "loading",
            "The child that kept the listening socket is ended; the request gets `load_failed`.",
            "load_failed",
            says=KILLED,
        ),
        Course(
            "idle",
            "No request goes to the child that kept the listening socket: it is ended, and the model loaded anew.",
            says=KILLED,
        ),
        Course(
            "streaming",
            "The stream ends with `upstream_error`; the child is ended.",
            "upstream_error",
            says=KILLED,
            slow=True,
        ),
    ),
    *cells(
        "model-daemonises",
        ordered("daemon"),
        Course(
            "starting",
            "The request is told to keep the server in the foreground, and nothing is left of it.",
            "load_failed",
            says="foreground",
            slow=True,
        ),
        Course(
            "loading",
            "The request is told the same, and nothing is left of it.",
            "load_failed",
            says="foreground",
        ),
        Course(
            "idle",
            "What went into the background is ended; the next request loads the model.",
            says="exit code 0",
        ),
        Course(
            "answering",
            "The request gets `upstream_error`; what is left is ended.",
            "upstream_error",
            says="exit code 0",
        ),
        Course(
            "streaming",
            "The stream ends with an error event `upstream_error`; what is left is ended.",
            "upstream_error",
            says="exit code 0",
            slow=True,
        ),
    ),
    *cells(
        "model-slow",
        ordered("drip"),
        Course(
            "idle", "An answer that comes byte by byte is passed on; nobody suspects the model.", after="same"
        ),
        Course(
            "draining", "It gets the time it needs; then it goes, as asked.", "answered", "gone", heals=True
        ),
    ),
)
