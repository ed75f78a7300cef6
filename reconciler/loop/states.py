"""What is kept of a model's state while it is not in memory: saved before it is stopped, restored before it serves.

Nothing here keeps a model from going, or from coming: all of it has a deadline, and without a state the model starts
cold, which is said.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
import structlog

from reconciler.board import SavedState
from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.base import EngineError, Saver
from reconciler.excerpt import excerpt, secrets_of
from reconciler.loop.launches import Launch
from reconciler.loop.states_files import UnfitError
from reconciler.loop.states_hooks import HookSaver
from reconciler.loop.states_identity import UnknownWeightsError
from reconciler.loop.states_moves import (
    OLDEST,
    ColdError,
    ExcessError,
    VainError,
    bring_back,
    put_away,
    thread,
)
from reconciler.loop.states_record import Kept
from reconciler.loop.states_shelf import Shelf
from reconciler.loop.states_words import amount, died_of_it, late, tried
from reconciler.manifest.applied import StateSettings

#: Seconds that putting the folder in order may take.
TIDY_SECONDS: Final = 5.0

#: Seconds that the end of a process may take whose save took too long: it may go on writing.
LATE_GRACE: Final = 2.0

#: Kind of an event, model, reason, sentence.
Tell = Callable[[str, str, str, str], Awaitable[None]]

log = structlog.get_logger("reconciler.loop")


class States:
    """The saved states under one folder of the state directory. Belongs to the loop's task."""

    def __init__(
        self,
        folder: Path,
        tell: Tell,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = Shelf(folder)
        self._tell, self._clock, self._wall = tell, clock, wall
        self._settings: Mapping[str, StateSettings] = {}
        self._most = 0
        self._kept: dict[str, Kept] = {}
        self._notes: dict[str, str] = {}
        #: Into which process a state was restored, and when, if it has not been unloaded in good order since.
        self._lent: dict[str, tuple[Launch, float]] = {}
        #: Models whose state was saved by a process that has not ended yet.
        self._fresh: set[str] = set()
        #: Models of which a state could not be restored, nor removed: it is not tried again.
        self._barred: set[str] = set()
        #: Models whose state is being saved or restored.
        self._busy: set[str] = set()
        #: What the disk did not do, as it was said last; "" = it does what it should.
        self._trouble = ""

    # -- what is wanted --------------------------------------------------------------------------------------------

    def use(self, settings: Mapping[str, StateSettings], most: int) -> None:
        """Keep the states of these models from now on, in at most so many bytes together."""
        self._settings, self._most = settings, most
        self._notes = {model: note for model, note in self._notes.items() if model in settings}

    async def tidy(self, launches: Mapping[str, LaunchSpec]) -> None:
        """Remove what is of no use any more, and look which models can have no state. Never raises; bounded."""
        with anyio.move_on_after(TIDY_SECONDS):
            await thread(self._tidy, launches)

    def _tidy(self, launches: Mapping[str, LaunchSpec]) -> None:
        with self._disk():
            self._shelf.tidy(self._settings, self._wall() - OLDEST, self._busy)
            self._shelf.trim(self._most)
            self._kept = {kept.model: kept for kept in self._shelf.all()}
        for model, spec in sorted(launches.items()):
            saver = self._saver(spec)
            if saver is not None and (why := saver.refuses(spec)):
                self._notes[model] = f"not kept: {why}"

    def kept(self) -> dict[str, SavedState]:
        """Return what is kept of each model, and what became of it last, for people."""
        shown = {}
        for model in sorted(self._settings):
            kept, note = self._kept.get(model), self._notes.get(model, "")
            if kept is None:
                shown[model] = SavedState(note=note)
            else:
                at = self._clock() - (self._wall() - kept.saved_at)
                shown[model] = SavedState(kept.tokens, kept.size, at, note)
        return shown

    def folder(self, spec: LaunchSpec) -> str | None:
        """Return the folder a server of this model is told to save into, or None if it saves nothing. Blocks."""
        saver = self._saver(spec) if spec.saves_state else None
        if saver is None or saver.refuses(spec):
            return None
        with self._disk():
            return str(self._shelf.files(spec.model).path)

    def _saver(self, spec: LaunchSpec) -> Saver | None:
        settings = self._settings.get(spec.model)
        if settings is None:
            return None
        if settings.save is not None:
            return HookSaver(settings)
        return registry.get(spec.engine).saver(spec) if spec.saves_state else None

    # -- unloading -------------------------------------------------------------------------------------------------

    def patience(self, model: str) -> float | None:
        """Return how many seconds a save of a model's state may take; None = none is kept."""
        settings = self._settings.get(model)
        return None if settings is None else settings.timeout

    async def save(self, launch: Launch) -> float | None:
        """Save the state of a model that serves nobody any more and is about to be stopped. Never raises; bounded.

        Return how long its end may take at most, if the save was cut: it may go on writing. None = as long as ever.
        """
        model, spec = launch.model, launch.spec
        self._lent.pop(model, None)
        settings = self._settings.get(model)
        saver = None if spec is None or launch.broken or launch.exit is not None else self._saver(spec)
        if spec is None or settings is None or saver is None or await self._refused(launch, spec, saver):
            return None
        why, hurry = "", None
        try:
            why = await self._bounded(
                launch, spec, settings, lambda: self._save(launch, spec, saver, settings)
            )
            hurry = LATE_GRACE if why == late(settings) else None
        except ExcessError as error:
            why, hurry = str(error), 0.0
        if why:
            self._kept.pop(model, None)
            with anyio.move_on_after(TIDY_SECONDS):
                await thread(self._discard, model)
            await self._say("state-lost", model, "StateNotSaved", f"state not saved: {why}")
        return hurry

    async def _save(self, launch: Launch, spec: LaunchSpec, saver: Saver, settings: StateSettings) -> None:
        model = launch.model
        self._kept.pop(model, None)
        most = self._most if settings.most is None else min(settings.most, self._most)
        try:
            kept = await put_away(self._shelf, launch, spec, saver, most, self._clock, self._wall())
        except VainError as error:  # it was said when it was seen
            self._notes[model] = f"not kept: {error}"
            return
        if kept is None:
            self._notes[model] = "nothing to keep: it held no conversation"
            return
        await thread(self._shelf.write, kept)
        self._kept[model], self._trouble = kept, ""
        self._fresh.add(model)
        self._barred.discard(model)
        took = f"{amount(kept)} in {kept.seconds:.2f} s"
        await self._say("state-saved", model, "StateSaved", f"state saved: {took}")
        for other in await thread(self._shelf.trim, self._most):
            self._kept.pop(other, None)
            text = "state dropped: it was the oldest, and all together had more than machine.state_disk"
            await self._say("state-dropped", other, "StateDropped", text)

    async def stopped(self, launch: Launch) -> None:
        """Remove what a model that is gone now left half-written, or wrote too late. Never raises; bounded."""
        model, fresh = launch.model, launch.model in self._fresh
        self._fresh.discard(model)
        kept = self._kept.get(model)
        if model not in self._settings or (kept is not None and not fresh):
            return
        with anyio.move_on_after(TIDY_SECONDS):
            name = await thread(self._touched, kept) if kept is not None else ""
            if kept is None or name:
                self._kept.pop(model, None)
                await thread(self._discard, model)
            if name:
                why = f"{name} was written to after its save had ended"
                await self._say("state-lost", model, "StateNotSaved", f"state not saved: {why}")

    def _touched(self, kept: Kept) -> str:
        try:
            return self._shelf.touched(kept)
        except OSError as error:
            return str(error.filename)

    def _discard(self, model: str) -> None:
        with self._disk():
            self._shelf.empty(model)
            self._barred.discard(model)

    # -- loading ---------------------------------------------------------------------------------------------------

    async def restore(self, launch: Launch) -> str:
        """Restore the state of a model that is ready and serves nobody yet. Never raises; bounded.

        Return why it starts cold although something was tried, or "": then the process may not be well.
        """
        model, spec = launch.model, launch.spec
        settings = self._settings.get(model)
        saver = self._saver(spec) if spec is not None else None
        if spec is None or settings is None or saver is None or await self._refused(launch, spec, saver):
            return ""
        lent = self._lent.pop(model, None)
        why = "what is kept of it failed before, and could not be removed" if model in self._barred else ""
        if lent is not None and died_of_it(*lent):
            why = "the process that it was restored into died soon afterwards"
        why = why or await self._bounded(launch, spec, settings, lambda: self._restore(launch, spec, saver))
        if why:
            self._kept.pop(model, None)
            self._barred.add(model)
            with anyio.move_on_after(TIDY_SECONDS):
                await thread(self._discard, model)
            await self._say("cold-start", model, "ColdStart", f"cold start: {why}")
        return why

    async def _restore(self, launch: Launch, spec: LaunchSpec, saver: Saver) -> None:
        began = self._clock()
        found = await bring_back(self._shelf, launch, spec, saver, self._wall())
        if found is None:
            if launch.model in self._kept:
                raise ColdError("the record of what was saved is gone or damaged")
            return
        self._kept[launch.model], self._lent[launch.model] = found.kept, (launch, self._clock())
        text = f"state restored: {amount(found.kept)} in {self._clock() - began:.2f} s{tried(found)}"
        await self._say("state-restored", launch.model, "StateRestored", text)

    # -- what both share -------------------------------------------------------------------------------------------

    async def _refused(self, launch: Launch, spec: LaunchSpec, saver: Saver) -> bool:
        """Return whether no state is kept with these settings; it is said once."""
        with anyio.move_on_after(TIDY_SECONDS):
            why = await thread(saver.refuses, spec)
            if why and self._notes.get(launch.model) != f"not kept: {why}":
                await self._say("state-off", launch.model, "StateNotKept", f"not kept: {why}")
            return bool(why)
        return True

    async def _bounded(
        self, launch: Launch, spec: LaunchSpec, settings: StateSettings, work: Callable[[], Awaitable[None]]
    ) -> str:
        """Do it within state.timeout; return why it did not succeed, fit to be shown, or "". Raises ExcessError."""
        self._busy.add(launch.model)
        try:
            with anyio.move_on_after(settings.timeout) as scope:
                await work()
        except ExcessError:
            raise
        except VainError as error:
            return f"{error}; no state is kept with this setup and build any more"
        except (ColdError, UnknownWeightsError) as error:
            return str(error)
        except (EngineError, UnfitError) as error:
            return excerpt(str(error), secrets_of(spec))
        except OSError as error:
            return f"the disk: {error.strerror or error} ({error.filename})"
        except Exception as error:
            # An adapter of somebody else's is no reason to keep a model loaded, or from being loaded.
            log.exception("the state of a model", model=launch.model)
            return f"a fault of its adapter: {type(error).__name__}"
        finally:
            self._busy.discard(launch.model)
        return late(settings) if scope.cancelled_caught else ""

    async def _say(self, kind: str, model: str, reason: str, message: str) -> None:
        self._notes[model] = message
        await self._tell(kind, model, reason, message)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Say once what the disk does not do: a folder of states is a convenience, and no reason to stop."""
        try:
            yield
        except OSError as error:
            text = f"{error.strerror or error} ({error.filename})"
            if text != self._trouble:
                log.error("the folder of saved states cannot be used", error=text)
            self._trouble = text
