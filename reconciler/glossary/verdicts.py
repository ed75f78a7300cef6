"""Reasons of steps and verdicts."""

from typing import Final

from reconciler.core.types import Reason
from reconciler.glossary.words import Kind, Word

_LOADS: Final = "scheduling.md#who-wants-memory"
_LEAVES: Final = "scheduling.md#why-a-model-leaves"
_STAYS_OUT: Final = "scheduling.md#why-a-model-stays-out"
_PRESSURE: Final = "scheduling.md#when-the-machine-is-short-of-memory"
_EXPLAIN: Final = "`reconcile explain NAME` says what would let it in, and what that asks of others"


def _verdict(reason: Reason, page: str, means: str, helps: str = "") -> Word:
    return Word(reason.value, Kind.VERDICT, means, helps, page)


VERDICTS: Final = (
    _verdict(Reason.PINNED, _LOADS, "`residency: pinned`: it is in memory whoever else wants the room."),
    _verdict(
        Reason.WARM, _LOADS, "`residency: warm`: it is loaded whenever there is room, without a request."
    ),
    _verdict(Reason.DEMANDED, _LOADS, "Requests wait for it."),
    _verdict(
        Reason.REQUESTED, _LOADS, "A person asked for it: `reconcile load`, or a lease by `reconcile hold`."
    ),
    _verdict(
        Reason.PREWARM,
        "scheduling.md#before-anybody-asks",
        "It will probably be asked for soon, and there is room.",
        "`prewarm: off` in the manifest ends it",
    ),
    _verdict(Reason.MAKE_ROOM, _LEAVES, "It gives its room to the model that is named with it."),
    _verdict(
        Reason.LESS_LIKELY,
        _LEAVES,
        "Nobody used it, and the model named with it will probably be asked for sooner.",
        "`prewarm: free` or `off` ends it",
    ),
    _verdict(
        Reason.OVER_BUDGET,
        _LEAVES,
        "Models hold more than the budget: it was lowered, or one outgrew its size.",
        "`reconcile budget` shows who holds what",
    ),
    _verdict(Reason.DRIFTED, _LEAVES, "Its launch settings changed, or its weights or class were replaced."),
    _verdict(Reason.REMOVED, _LEAVES, "It is not in the manifest any more."),
    _verdict(Reason.DUPLICATE, _LEAVES, "It is a second process of one model."),
    _verdict(Reason.IDLE_EXPIRED, _LEAVES, "Nobody used it for its `idle_ttl`."),
    _verdict(Reason.TRANSIENT_DONE, _LEAVES, "`residency: transient`, and nobody is being served."),
    _verdict(Reason.RESTART_DUE, _LEAVES, "It has run, served or grown as much as `restart` allows."),
    _verdict(Reason.DISMISSED, _LEAVES, "`reconcile evict`: it stays out until somebody asks for it."),
    _verdict(
        Reason.CRASHED,
        _LEAVES,
        "It died, and what it left behind is ended.",
        "`reconcile explain NAME` says how it died; `reconcile logs NAME` shows what it said last",
    ),
    _verdict(
        Reason.HUNG,
        _LEAVES,
        "Its process lives and answers nobody; it is ended, and loaded again if it is wanted.",
        "`reconcile logs NAME` shows what it did last",
    ),
    _verdict(Reason.SHUTDOWN, _LEAVES, "`reconcile` itself ends."),
    _verdict(
        Reason.MEMORY_PRESSURE,
        _PRESSURE,
        "The machine is short of memory, whoever took it: models go one at a time until use is below the target, and"
        " until then nothing is loaded.",
        "`reconcile status` shows who holds the memory; end other programs, or use less of it for models",
    ),
    _verdict(Reason.IN_USE, _LEAVES, "Requests are in flight, or a lease holds it: it stays."),
    _verdict(Reason.RESIDENT, _LEAVES, "It is in memory, and nothing has to go."),
    _verdict(Reason.LOADING, _LOADS, "It is being loaded."),
    _verdict(Reason.NOT_WANTED, _LOADS, "Nobody asks for it."),
    _verdict(
        Reason.NO_ROOM, _STAYS_OUT, "A warm model without room; it comes back when there is some.", _EXPLAIN
    ),
    _verdict(
        Reason.INSUFFICIENT_MEMORY,
        _STAYS_OUT,
        "Pinned models and other programs hold the memory.",
        _EXPLAIN,
    ),
    _verdict(
        Reason.NEVER_FITS,
        _STAYS_OUT,
        "It is larger than what the budget leaves beside the pinned models, so that no wait helps.",
        "raise `machine.memory`, shrink the model (context, slots, quantisation), or pin less",
    ),
    _verdict(
        Reason.SIZE_UNKNOWN,
        _STAYS_OUT,
        "Nobody can tell what it takes before it runs.",
        "state `memory: {steady: SIZE}`, or have `reconcile measure NAME --write` find it out",
    ),
    _verdict(
        Reason.MEMORY_UNKNOWN,
        _STAYS_OUT,
        "The machine's memory could not be read, and nothing is loaded blindly.",
        "`reconcile status` and `reconcile doctor` say what could not be read",
    ),
    _verdict(
        Reason.NOT_STARTABLE,
        _STAYS_OUT,
        "Something that it needs is missing or wrong: weights, a command, a port.",
        "mend what the message names; it is looked at again by itself",
    ),
    _verdict(
        Reason.NO_PORT,
        _STAYS_OUT,
        "Every port of `machine.ports` is taken, one of them at least by a model of ours.",
        "it is loaded once one comes free; a wider `machine.ports` lets more models run side by side",
    ),
    _verdict(
        Reason.BACKING_OFF,
        "crashes.md#when-it-is-tried-again",
        "Its last start failed, and it is tried again at the time that is shown.",
        "`reconcile explain NAME` says why it failed; `reconcile load NAME` tries at once",
    ),
    _verdict(
        Reason.GIVEN_UP,
        "crashes.md#when-it-is-tried-again",
        "It failed again and again, or for a reason that no repetition mends.",
        "mend what the message names; it is tried when that changes, or by `reconcile load NAME`",
    ),
    _verdict(
        Reason.RESTING,
        _STAYS_OUT,
        "It was unloaded less than its `reload_after` ago.",
        "`reconcile load NAME` does not wait",
    ),
    _verdict(
        Reason.VICTIMS_BUSY,
        _STAYS_OUT,
        "What it may displace is serving requests, or is held by a lease.",
        "wait, `reconcile release` the lease that is named, or give it a higher priority",
    ),
    _verdict(
        Reason.VICTIMS_KEPT,
        _STAYS_OUT,
        "What it may displace was loaded a moment ago and stays for its `min_resident` or `cooldown`.",
        "wait as long as is said, or `reconcile load NAME`",
    ),
    _verdict(
        Reason.VICTIM_STOPPING, _STAYS_OUT, "Room is being made for it: the model that is named is leaving."
    ),
    _verdict(
        Reason.OUTRANKED,
        _STAYS_OUT,
        "What holds the memory has a higher priority, or may not be displaced by it.",
        "`reconcile explain NAME` says who; give it a higher `priority`, or the other a lower one",
    ),
)
