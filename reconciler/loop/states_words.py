"""What is said of a state, and when it is suspected."""

from typing import Final

from reconciler.core.words import size
from reconciler.loop.launches import Launch
from reconciler.loop.states_moves import Restored
from reconciler.loop.states_record import Kept
from reconciler.manifest.applied import StateSettings

#: A process that dies so soon after a state was restored into it may have died of it.
SUSPECT_SECONDS: Final = 60.0


def died_of_it(launch: Launch, restored_at: float) -> bool:
    """Return whether a process ended by itself so soon that what was restored into it may be why."""
    return launch.exited_at is not None and launch.exited_at - restored_at < SUSPECT_SECONDS


def tried(found: Restored) -> str:
    """Say what came of trying it, if it was: that the rest was not lost, but not sent."""
    if found.trial is None:
        return ""
    used, sent = found.trial.used, found.trial.sent
    text = f"; a trial with {sent} of its tokens, once for this setup, used {used} of them again"
    return f"{text} (not noted, so it will be tried again: {found.unnoted})" if found.unnoted else text


def late(settings: StateSettings) -> str:
    """Say that saving or restoring took too long."""
    return f"it took longer than state.timeout ({settings.timeout:g} s)"


def amount(kept: Kept) -> str:
    """Say how much was kept."""
    tokens = "" if kept.tokens is None else f"{kept.tokens} tokens, "
    return f"{tokens}{size(kept.size)}"
