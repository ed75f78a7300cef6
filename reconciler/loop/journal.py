"""What happened, kept: a log line, an event in the history, and the entry in the ledger that it changes."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import structlog

from reconciler.core import book
from reconciler.core.crashes import FailureKind
from reconciler.core.types import Evict, LedgerEntry, Load, Outcome, Plan, Reason, Step, World
from reconciler.core.words import size, span
from reconciler.counts import Counts
from reconciler.counts.counts import GIVEN_UP, LOAD_FAILED
from reconciler.leases import Hold
from reconciler.loop.failures import Failure
from reconciler.loop.had import had, too_little
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch
from reconciler.loop.ledger import Ledger
from reconciler.manifest import Applied, ManifestError
from reconciler.store import AsyncStore

#: Seconds after which a model that waits for another reason than was logged is worth another line.
WAIT_SECONDS: Final = 10.0
REBUILT: Final = "the ledger was lost; its record was rebuilt from the process"

log = structlog.get_logger("reconciler.loop")


class Journal:
    """Writes the history. `wall` is for people; nothing is decided by it. `told` is called after each event."""

    def __init__(
        self,
        store: AsyncStore,
        keeper: Keeper,
        ledger: Ledger,
        wall: Callable[[], float] = time.time,
        told: Callable[[], None] = lambda: None,
        counts: Counts | None = None,
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._ledger = ledger
        self._wall = wall
        self._tell = told
        self._counts = counts or Counts()
        #: Why models wait that are asked for, as it was logged last, and when.
        self._told: dict[str, tuple[Reason, float]] = {}

    async def _event(self, kind: str, model: str | None, reason: str, message: str) -> None:
        if await self._keeper.keep(self._store.add_event(self._wall(), kind, model, reason, message)):
            self._tell()

    async def applied(self, applied: Applied) -> None:
        """A manifest is in force."""
        manifest = applied.manifest
        self._counts.keep(m.name for m in manifest.models)
        source = applied.source
        git = f"{source.git_commit}+dirty" if source.git_commit and source.git_dirty else source.git_commit
        known = {"git": git} if git else {}
        log.info("manifest applied", generation=manifest.generation, models=len(manifest.models), **known)
        await self._event("manifest", None, "Applied", f"generation {manifest.generation}")
        for warning in applied.warnings:
            log.warning("manifest", warning=warning)

    async def refused(self, error: ManifestError, generation: int) -> tuple[str, ...]:
        """A newer manifest was refused whole; return a line for each error."""
        lines = tuple(f"{d}; {d.hint}" if d.hint else str(d) for d in error.diagnostics)
        for line in lines:
            log.error("manifest refused", error=line)
        log.error("the last good manifest stays in force", generation=generation, errors=len(lines))
        await self._event("manifest", None, "Refused", "; ".join(lines))
        return lines

    async def repaired(self, generation: int) -> None:
        """A refused manifest was brought back to what is in force."""
        log.info("manifest is valid again, and says what is in force", generation=generation)
        await self._event("manifest", None, "Repaired", f"generation {generation}")

    async def adopted(self, launch: Launch, *, late: bool = False) -> None:
        """A process of an earlier run serves on; `late` = it was silent at first."""
        known: dict[str, Any] = {"late": True} if late else {}
        if launch.rebuilt:
            known["record"] = REBUILT
        log.info("adopted", model=launch.model, pid=launch.process.pid, port=launch.port, **known)
        text = f"pid {launch.process.pid} of an earlier run serves on"
        if launch.rebuilt:
            text = f"{text}: {REBUILT}"
        await self._event("adopted", launch.model, "Adopted", text)

    async def left(self, launch: Launch) -> None:
        """A process runs on although this run ends."""
        text = f"pid {launch.process.pid} runs on for the next reconcile"
        await self._event("left", launch.model, "Left", text)

    async def leftover(self, model: str, pids: tuple[int, ...], why: str) -> None:
        """A process of an earlier run is ended: what that run had begun is finished, or it is good for nothing."""
        log.info("ending a leftover", model=model, pids=pids, reason=why)
        await self._event("ended-leftover", model, "Leftover", why)

    async def unknown_leftover(self, launch_id: str) -> None:
        """A process bears our mark, and no record says what it is."""
        log.warning("ending a process of ours that no record knows", launch=launch_id)
        await self._event("ended-leftover", None, "Unrecorded", "a process of ours that no record knows")

    async def ledger_renewed(self, what: str) -> None:
        """The file of the ledger was lost or damaged while it was in use."""
        await self._event("ledger", None, "Renewed", what)

    async def begun(self, step: Step) -> None:
        """A step was begun; its cause goes with it."""
        facts: dict[str, Any] = {"model": step.model, "reason": str(step.reason)}
        if isinstance(step, Evict) and step.for_model:
            facts["for_model"] = step.for_model
        if step.detail:
            facts["why"] = step.detail
        if isinstance(step, Load):
            facts |= {"needs": size(step.needs), "then_free": size(step.free)}
            log.info("load", **facts, data={"bytes": step.needs})
        else:
            facts |= {"pid": step.pid, "frees": size(step.frees)}
            if step.reason is not Reason.SHUTDOWN:  # nobody plans what is free after the end
                facts["then_free"] = size(step.free)
            log.info("evict", **facts, data={"bytes": step.frees})
        kind = "load" if isinstance(step, Load) else "evict"
        what = f"for {facts['for_model']}: " if "for_model" in facts else ""
        await self._event(kind, step.model, str(step.reason), what + step.detail)

    def waits(self, made: Plan, world: World) -> None:
        """Log why a model that is asked for is not loaded: once a wait, and again if another reason has come to last.

        A wait is over when the model takes requests or nobody asks for it any more. While models take turns in the
        memory each of them may be blocked, about to be loaded and blocked again several times in one wait.
        """
        now = world.observation.at
        asked = {d.model for d in world.observation.demands if d.waiting or d.wanted}
        self._told = {model: told for model, told in self._told.items() if model in asked}
        for verdict in made.verdicts:
            if verdict.model not in asked or verdict.outcome is not Outcome.BLOCKED:
                continue
            reason, at = self._told.get(verdict.model, (None, now - WAIT_SECONDS))
            if verdict.reason is not reason and now - at >= WAIT_SECONDS:
                self._told[verdict.model] = (verdict.reason, now)
                log.info("waiting", model=verdict.model, reason=str(verdict.reason), why=verdict.detail)

    async def loaded(self, step: Load, seconds: float, launch: Launch | None) -> None:
        """A model is ready."""
        self._counts.loaded(step.model, seconds)
        entry = self._ledger.entry(step.model, step.digest)
        if launch is None:
            self._ledger.update(book.loaded(entry, seconds))
        elif step.pid is not None:
            self._ledger.update(book.woken(entry))
        else:
            known = book.loaded(entry, seconds, launch.build, launch.said, launch.weights)
            # It may have died meanwhile, which was written down first: its next try is due when that says.
            self._ledger.update(known if launch.exit is None else replace(known, retry_at=entry.retry_at))
        held = None if launch is None else launch.holds
        log.info(
            "loaded",
            model=step.model,
            seconds=seconds,
            holds=size(held),
            estimated=size(step.size),
            port=launch.port if launch else None,
            **({"woken": True} if step.pid is not None else {}),
            data={"reason": str(step.reason), "bytes": held},
        )
        await self._event("loaded", step.model, str(step.reason), f"in {seconds:.1f} s, holds {size(held)}")

    async def load_failed(
        self, step: Load, failure: Failure, launch: Launch | None, seconds: float, now: float
    ) -> LedgerEntry:
        """A load failed after so many seconds; return what is known of it now, the time of the next try among it."""
        entry, error = self._failed(step, failure, launch, now), failure.text
        wait = (entry.retry_at or now) - now
        facts = {"kind": str(failure.kind), "tries": entry.failures, "next_try_in": wait}
        data = {"reason": str(step.reason), "seconds": seconds, "bytes": had(launch, 0) or None}
        log.error("load failed", model=step.model, error=error, **facts, data=data)
        await self._event("load-failed", step.model, str(failure.kind), error)
        return entry

    def _failed(
        self, step: Load, failure: Failure, launch: Launch | None, now: float, *, afresh: bool = False
    ) -> LedgerEntry:
        """Count a failure."""
        self._counts.load_ended(step.model, LOAD_FAILED)
        self._counts.failed(step.model, failure.kind)
        known = self._ledger.entry(step.model, step.digest)
        if launch is not None and launch.weights:
            # Which may have been too new to be told from half a copy before.
            known = replace(known, weights=launch.weights)
        least = too_little(launch, step.size, failure.kind)
        entry = book.failed(known, failure.text, now, failure.kind, least, afresh=afresh)
        self._ledger.update(entry)
        return entry

    async def asleep(self, step: Evict, seconds: float, launch: Launch | None) -> None:
        """A model gave its memory back, and its process stays."""
        self._counts.evicted(step.model, str(step.reason))
        held = launch.holds if launch is not None else None
        data = {"reason": str(step.reason), "bytes": held}
        log.info("sleeps", model=step.model, seconds=seconds, holds=size(held), data=data)
        text = f"in {seconds:.1f} s, holds {size(held)}"
        await self._event("asleep", step.model, str(step.reason), text)

    async def begins_anew(
        self, step: Load, failure: Failure, launch: Launch | None, seconds: float, now: float
    ) -> None:
        """A process did not survive its waking, or that its state was restored: the next one does without either."""
        entry = self._failed(step, failure, launch, now, afresh=True)
        wait = (entry.retry_at or now) - now
        facts = {"kind": str(failure.kind), "tries": entry.failures, "next_try_in": wait}
        data = {"reason": str(step.reason), "seconds": seconds, "bytes": had(launch, step.holds) or None}
        if step.pid is not None:
            what, kind, reason = "it is loaded anew", "wake-failed", "WakeFailed"
            log.warning(
                "it did not wake: it is loaded anew", model=step.model, error=failure.text, **facts, data=data
            )
        else:
            what, kind, reason = "it is loaded anew, without the state", "restore-failed", "RestoreFailed"
            log.warning(
                "its state could not be restored: it is loaded anew, without the state",
                model=step.model,
                error=failure.text,
                **facts,
                data=data,
            )
        await self._event(kind, step.model, reason, f"{failure.text}; {what}")

    async def ended_asleep(self, launch: Launch, failure: Failure) -> None:
        """A process ended that served nobody: nothing is held against its model."""
        self._counts.failed(launch.model, failure.kind)
        facts = {"pid": launch.process.pid, "kind": str(failure.kind), "error": failure.text}
        log.warning("it ended while it slept", model=launch.model, **facts, data={"bytes": launch.holds})
        await self._event("ended-asleep", launch.model, str(failure.kind), failure.text)

    async def evicted(self, step: Evict, seconds: float) -> None:
        """A process is gone."""
        self._counts.evicted(step.model, str(step.reason))
        data: dict[str, Any] = {"reason": str(step.reason), "bytes": step.frees}
        if step.for_model:
            data["for_model"] = step.for_model
        log.info("evicted", model=step.model, seconds=seconds, data=data)
        await self._event("evicted", step.model, str(step.reason), f"in {seconds:.1f} s")

    async def given_up(self, step: Step, why: str, seconds: float) -> None:
        """A step was begun, and not finished after so many seconds, and nothing is wrong with that."""
        if isinstance(step, Load):
            self._counts.load_ended(step.model, GIVEN_UP)
        else:
            self._counts.called_off(step.model)
        log.info("given up", model=step.model, why=why, data={"reason": str(step.reason), "seconds": seconds})
        await self._event("given-up", step.model, str(step.reason), why)

    async def prewarm_used(self, model: str, after: float) -> None:
        """Somebody asked for a model that had been loaded before."""
        log.info("loaded in advance, and used", model=model, after=after)
        await self._event("prewarm-used", model, "Used", f"asked for {span(after)} after it was ready")

    async def prewarm_in_vain(self, model: str, after: float, gone: bool, again_in: float) -> None:
        """Nobody asked for a model that was loaded in advance, before it went or for a long time."""
        what = "went" if gone else "was still there"
        why = f"it {what} after {span(after)}, and nobody had asked for it"
        log.info("loaded in advance, in vain", model=model, why=why, again_in=again_in)
        await self._event("prewarm-in-vain", model, "InVain", f"{why}; not again for {span(again_in)}")

    async def wanted_again(self, model: str, message: str) -> None:
        """A model was wanted at once after several of its evictions, which was not so before."""
        log.warning("evicted, then wanted at once", model=model, what=message)
        await self._event("evicted-then-wanted", model, "EvictedThenWanted", message)

    async def state(self, kind: str, model: str, reason: str, message: str) -> None:
        """What became of the state of a model that was unloaded, or loaded."""
        write = log.info if kind in ("state-saved", "state-restored") else log.warning
        write(kind.replace("-", " "), model=model, what=message)
        await self._event(kind, model, reason, message)

    async def safe_mode(self, reason: str, why: str) -> None:
        """Only pinned models are loaded from now on (`Entered`), or all are again (`Left`)."""
        await self._event("safe-mode", None, reason, why)

    async def lease_over(self, hold: Hold) -> None:
        """A lease from outside was ended by somebody else than its owner."""
        log.info("lease over", model=hold.model, owner=hold.owner, why=hold.ended)
        await self._event("lease-over", hold.model, "LeaseOver", f"{hold.owner}: {hold.ended}")

    async def crashed(self, launch: Launch, failure: Failure, answered: int, now: float) -> None:
        """A ready model died by itself, which had answered so many requests."""
        self._counts.failed(launch.model, failure.kind)
        ran = now - launch.loaded_at
        entry = self._ledger.entry(launch.model, launch.digest)
        most = too_little(launch, launch.admitted, failure.kind)
        self._ledger.update(book.crashed(entry, failure.text, ran, answered, now, failure.kind, most))
        facts = {"pid": launch.process.pid, "after": f"{ran:.1f} s", "answered": answered}
        data = {"reason": str(failure.kind), "seconds": ran, "bytes": had(launch, 0) or None}
        log.error(
            "model died",
            model=launch.model,
            **facts,
            kind=str(failure.kind),
            error=failure.text,
            data=data,
        )
        await self._event("crashed", launch.model, str(failure.kind), failure.text)

    async def suspected(self, model: str, cause: str, why: str) -> None:
        """A model that is ready may hang."""
        log.warning("it may hang", model=model, cause=cause, why=why)
        await self._event("suspected", model, cause, why)

    async def cleared(self, model: str, why: str) -> None:
        """A model that was suspected to hang does not."""
        log.info("it does not hang", model=model, why=why)
        await self._event("cleared", model, "Cleared", why)

    async def hung(self, launch: Launch, why: str, lived: float, answered: int, now: float) -> None:
        """It is sure that a model hangs, which had been well for `lived` seconds and answered so many requests."""
        self._counts.failed(launch.model, FailureKind.HUNG)
        entry = self._ledger.entry(launch.model, launch.digest)
        error = f"{book.HUNG}: {why}"
        self._ledger.update(book.crashed(entry, error, lived, answered, now, FailureKind.HUNG))
        facts = {"pid": launch.process.pid, "after": f"{lived:.1f} s", "answered": answered}
        data = {"reason": str(FailureKind.HUNG), "seconds": lived, "bytes": launch.holds}
        log.error("model hangs", model=launch.model, **facts, error=why, data=data)
        await self._event("hung", launch.model, "Hung", why)
