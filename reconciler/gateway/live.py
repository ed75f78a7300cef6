"""What live streams show, made once for all of them, and only while somebody looks.

There is no task behind it: of the streams that wait for the next frame one waits for the loop and makes it, the others
find it made. When the one leaves, the next takes its place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread

from reconciler.board import Board, Snapshot
from reconciler.gateway.access.guard import started
from reconciler.manifest.applied import ApiKey

#: Seconds between two frames at least, and between two that differ in ages only.
PACE_SECONDS: Final = 1.0
AGES_SECONDS: Final = 4.0
#: What moves by itself: a frame that differs from the one before in nothing else is no news.
_AGES: Final = re.compile(
    rb'"(?:age|warm_age|elapsed|deadline_in|oldest_wait|idle|retry_in|waits|ends_in|again_in|probed|observation)"'
    rb":[-+.\deE]+|\b\d+(?:\.\d+)?(?:s|m|h|d)\b"
)

#: Returns the documents of status and plan; it may take a while.
Documents = Callable[[Snapshot, float], tuple[dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Part:
    """One document as it goes into a stream. `number` grows with each that is worth sending."""

    number: int
    text: bytes
    #: What it says besides ages.
    core: bytes
    #: When it was made.
    at: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The documents as they are now."""

    snapshot: Snapshot
    status: Part
    plan: Part

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """The API keys in force."""
        return self.snapshot.applied.gateway.api_keys

    def after(self, seen: "Frame | None") -> bytes:
        """Return what whoever has seen another frame lacks, as a piece of a stream."""
        mine = ((b"status", self.status), (b"plan", self.plan))
        had = (0, 0) if seen is None else (seen.status.number, seen.plan.number)
        return b"".join(
            piece(name, part.text) for (name, part), old in zip(mine, had, strict=True) if part.number != old
        )


class LiveFeed:
    """The newest frame, and whoever waits for the next. `clock` is the snapshots' clock."""

    def __init__(self, board: Board, documents: Documents, clock: Callable[[], float]) -> None:
        self._board = board
        self._documents = documents
        self._clock = clock
        self._frame: Frame | None = None
        self._looked_at = float("-inf")
        #: Held by the stream that waits for the loop, and by the one that makes a frame.
        self._turn, self._making = anyio.Lock(), anyio.Lock()

    async def now(self) -> Frame:
        """Return the frame of this moment, or of a second ago. Raises `ApiError` before the loop's first look."""
        async with self._making:
            if self._frame is None or self._clock() >= self._looked_at + PACE_SECONDS:
                started(await self._board.fresh())
                await self._make()
            assert self._frame is not None
            return self._frame

    async def next(self, seen: Frame) -> Frame:
        """Return a frame with something new since `seen`, or with other keys: ages alone count after some seconds."""
        async with self._turn:
            while (frame := self._frame) is None or not (frame.after(seen) or frame.keys != seen.keys):
                await anyio.sleep(max(0.0, self._looked_at + PACE_SECONDS - self._clock()))
                await self._wait()
                async with self._making:
                    if self._clock() >= self._looked_at + PACE_SECONDS:
                        await self._make()
            return frame

    async def last(self, seen: Frame) -> bytes:
        """Return what the loop has published since `seen`, however short a time ago that was."""
        async with self._making:
            if self._frame is None or self._frame.snapshot is not self._board.snapshot:
                await self._make()
            assert self._frame is not None
            return self._frame.after(seen)

    async def _wait(self) -> None:
        """Return when the loop has published, or it is time to have it look: a calm one does so every 10 s only."""
        frame = self._frame
        if frame is None or self._board.snapshot is not frame.snapshot:
            return
        with anyio.move_on_after(min(frame.status.at, frame.plan.at) + AGES_SECONDS - self._clock()):
            await self._board.published()
            return
        await self._board.fresh()

    async def _make(self) -> None:
        snapshot, now = started(self._board.snapshot), self._clock()
        self._frame = await to_thread.run_sync(self._made, snapshot, now, self._frame)
        self._looked_at = now

    def _made(self, snapshot: Snapshot, now: float, before: Frame | None) -> Frame:
        status, plan = self._documents(snapshot, now)
        return Frame(
            snapshot,
            _part(status, now, before.status if before else None),
            _part(plan, now, before.plan if before else None),
        )


def piece(event: bytes, data: bytes) -> bytes:
    """Return one event of a stream."""
    return b"event: %b\ndata: %b\n\n" % (event, data)


def _part(document: dict[str, Any], now: float, before: Part | None) -> Part:
    """Return a document as a part; the one before, if there is nothing new in it."""
    text = msgspec.json.encode(document)
    core = _AGES.sub(b"", text)
    if before is None:
        return Part(1, text, core, now)
    if core == before.core and now < before.at + AGES_SECONDS:
        return before
    return Part(before.number + 1, text, core, now)
