"""Content blocks of a streamed message: one is open at a time, whatever order an engine sends pieces in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages.answer import new_tool_id, parse_arguments

Event = dict[str, Any]

#: What a block is called, how its pieces are called, and in which field they are.
DELTAS: Final = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


@dataclass
class Block:
    """One block: what came of it so far, and what of that was not passed on yet."""

    kind: str
    id: str = ""
    name: str = ""
    started: bool = False
    closed: bool = False
    waiting: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing more can belong to it once another block has begun."""
        if self.kind != "tool_use":
            return True
        text = "".join(self.arguments)
        return bool(text.strip()) and parse_arguments(text) is not None

    def start(self) -> Event:
        """Return the empty block."""
        if self.kind == "tool_use":
            if not self.name:
                raise ApiError("upstream_error", "the model's server sent a tool call without a name")
            return {"type": "tool_use", "id": self.id or new_tool_id(), "name": self.name, "input": {}}
        extra = {"signature": ""} if self.kind == "thinking" else {}
        return {"type": self.kind, self.kind: "", **extra}


class Blocks:
    """The blocks of one message, in the order in which they began. The first may be open, later ones wait."""

    def __init__(self) -> None:
        self._queue: list[Block] = []
        #: The newest call under each of the engine's numbers; some engines give every call the same number.
        self._calls: dict[int, Block] = {}
        self._index = 0

    @property
    def called(self) -> bool:
        """Whether a tool was called."""
        return bool(self._calls)

    def words(self, kind: str, text: str) -> None:
        """Add a piece of text or of thinking."""
        if not self._queue or self._queue[-1].kind != kind:
            self._queue.append(Block(kind))
        self._queue[-1].waiting.append(text)

    def call(self, number: int, call_id: str, name: str, arguments: str) -> None:
        """Add a piece of a tool call. Raises `ApiError` (502) for more of a call that was complete."""
        block = self._calls.get(number)
        if block is None or (call_id and block.id and call_id != block.id):
            block = self._calls[number] = Block("tool_use")
            self._queue.append(block)
        elif block.closed:
            if arguments.strip():
                raise ApiError("upstream_error", "the model's server went on with a finished tool call")
            return
        block.id, block.name = block.id or call_id, block.name or name
        if arguments:
            block.waiting.append(arguments)
            block.arguments.append(arguments)

    def ready(self) -> Iterator[Event]:
        """Yield the events that can be sent now."""
        while self._queue:
            later = len(self._queue) > 1
            if self._queue[0].kind == "tool_use" and not self._queue[0].name and not later:
                return
            yield from self._open(self._queue[0])
            if not later or not self._queue[0].complete:
                return
            yield self._close()

    def rest(self) -> Iterator[Event]:
        """Yield all that is left, at the end of the answer."""
        while self._queue:
            yield from self._open(self._queue[0])
            yield self._close()

    def _open(self, block: Block) -> Iterator[Event]:
        if not block.started:
            block.started = True
            yield {"type": "content_block_start", "index": self._index, "content_block": block.start()}
        kind, key = DELTAS[block.kind]
        for text in block.waiting:
            delta = {"type": kind, key: text}
            yield {"type": "content_block_delta", "index": self._index, "delta": delta}
        block.waiting.clear()

    def _close(self) -> Event:
        self._queue.pop(0).closed = True
        self._index += 1
        return {"type": "content_block_stop", "index": self._index - 1}
