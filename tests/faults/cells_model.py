"""The process of a model dies, or is ended by somebody, in every state."""

import signal
from typing import Final

from faults.courses import Course, cells
from faults.sick import ordered, signalled

KILLED: Final = "killed by SIGKILL (9)"
WORDS: Final = "these are its last words"

CELLS: Final = (
    *cells(
        "model-kill9",
        signalled(signal.SIGKILL),
        Course(
            "starting",
            "The request gets `load_failed` with the signal; the next one has it tried again.",
            "load_failed",
            says=KILLED,
        ),
        Course(
            "loading",
            "The request gets `load_failed`; the next one waits for the next try, 2 s later, and is answered.",
            "load_failed",
            says=KILLED,
            waits=True,
        ),
        Course(
            "idle",
            "The model is out of service at once; the next request waits for a new process and is answered.",
            says=KILLED,
            waits=True,
        ),
        Course(
            "answering",
            "The request gets `upstream_error`; a new process serves.",
            "upstream_error",
            says=KILLED,
        ),
        Course(
            "streaming",
            "The stream ends with an error event `upstream_error`; a new process serves.",
            "upstream_error",
            says=KILLED,
        ),
        Course("queueing", "All three that wait get `load_failed`.", "load_failed", says=KILLED, slow=True),
        Course(
            "draining",
            "The stream ends with `upstream_error`; the model is gone, as asked.",
            "upstream_error",
            "gone",
        ),
        Course("stopping", "The model is gone, as asked.", after="gone"),
        Course("saving", "The model is gone, as asked; its next load is a cold start.", after="gone"),
        Course(
            "restoring",
            "The request waits on for a new process, which begins without the state, and is answered.",
            "answered",
            says="while its state was restored: killed by SIGKILL",
            heals=True,
        ),
        Course(
            "going-to-sleep",
            "The model is gone instead of asleep; the next request loads it, and it is asked to sleep as ever.",
            says="it was ended while it was to sleep",
        ),
        Course("asleep", "The model is gone; the next request loads it.", says=KILLED),
        Course(
            "waking",
            "The request waits on for a new process and is answered; the model is asked to sleep as ever.",
            "answered",
            says="it did not wake",
            heals=True,
        ),
    ),
    *cells(
        "model-terminated",
        signalled(signal.SIGTERM),
        Course(
            "starting",
            "The request gets `load_failed`, with the signal.",
            "load_failed",
            says="killed by SIGTERM (15)",
        ),
        Course(
            "loading",
            "The request gets `load_failed` in the same way.",
            "load_failed",
            says="SIGTERM (15)",
            slow=True,
        ),
        Course(
            "idle", "The model is out of service at once; the next request loads it.", says="SIGTERM (15)"
        ),
        Course(
            "answering",
            "The request gets `upstream_error`; a new process serves.",
            "upstream_error",
            says="SIGTERM (15)",
        ),
        Course(
            "streaming",
            "The stream ends with an error event `upstream_error`; a new process serves.",
            "upstream_error",
            says="SIGTERM (15)",
            slow=True,
        ),
        Course(
            "draining",
            "The stream ends with `upstream_error`; the model is gone, as asked.",
            "upstream_error",
            "gone",
        ),
        Course("stopping", "Nothing: it is deaf to that, and killed when its time is over.", after="gone"),
        Course(
            "saving", "The model is gone, as asked; its next load is a cold start.", after="gone", slow=True
        ),
        Course("asleep", "The model is gone; the next request loads it.", says="SIGTERM (15)"),
    ),
    *cells(
        "model-exit3",
        ordered("exit 3"),
        Course(
            "starting",
            "The request gets `load_failed` with exit code and last words.",
            "load_failed",
            says=WORDS,
            slow=True,
        ),
        Course(
            "loading",
            "The request gets `load_failed` with exit code and last words.",
            "load_failed",
            says=WORDS,
        ),
        Course("idle", "The status shows exit code and last words; the next request loads it.", says=WORDS),
        Course(
            "answering",
            "The request gets `upstream_error` with the last words; a new process serves.",
            "upstream_error",
            says="exit code 3",
        ),
        Course(
            "streaming",
            "The stream ends with an error event that has the last words; a new process serves.",
            "upstream_error",
            says="exit code 3",
            slow=True,
        ),
        Course(
            "draining",
            "The stream ends with `upstream_error`; the model is gone, as asked.",
            "upstream_error",
            "gone",
        ),
        Course(
            "saving", "The model is gone, as asked; its next load is a cold start.", after="gone", slow=True
        ),
        Course(
            "restoring",
            "The request waits on for a new process, which begins without the state, and is answered.",
            "answered",
            says="while its state was restored: exit code 3",
            heals=True,
        ),
        Course(
            "waking",
            "The request waits on for a new process and is answered; the model is not asked to sleep again.",
            "answered",
            says="it did not wake",
            heals=True,
            tires=True,
        ),
    ),
    *cells(
        "model-exit0",
        ordered("exit 0"),
        Course(
            "starting",
            "The request is told to keep the server in the foreground.",
            "load_failed",
            says="foreground",
        ),
        Course(
            "loading",
            "The request is told to keep the server in the foreground.",
            "load_failed",
            says="foreground",
        ),
        Course(
            "idle",
            "It counts as a crash: the status shows exit code 0; the next request loads it.",
            says="exit code 0",
        ),
        Course(
            "answering",
            "The request gets `upstream_error`; a new process serves.",
            "upstream_error",
            says="exit code 0",
            slow=True,
        ),
        Course(
            "streaming",
            "The stream ends with an error event `upstream_error`; a new process serves.",
            "upstream_error",
            says="exit code 0",
            slow=True,
        ),
        Course("asleep", "The model is gone; the next request loads it.", says="exit code 0"),
    ),
)
