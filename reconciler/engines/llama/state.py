"""What a llama.cpp server knows of its conversations (keys, values, states of its slots), kept in files over an unload.

Measured with xllamacpp 2026.10.11549 and llama-server b11434; docs/state.md has the figures.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from reconciler.core.launch import LaunchSpec
from reconciler.engines import placeholders, requests
from reconciler.engines.base import EngineError, Saved, Server, Trial
from reconciler.engines.builds import other_build
from reconciler.engines.llama import server as llama_server
from reconciler.engines.llama.args import SettingsError, read_settings
from reconciler.engines.llama.state_file import tokens_in
from reconciler.engines.llama.state_rules import depends_on, goes_back, why_not

#: The proof of readiness leaves fewer tokens than this in a slot, and they are not worth a file.
LEAST_TOKENS: Final = 64
#: Seconds that a request which was cut may go on computing in its slot; the server notices a client's leaving within
#: one. A slot that is busy longer is left out.
BUSY_SECONDS: Final = 3.0
_BUSY_POLL: Final = 0.05
#: What is sent to see whether a slot is used again: should it not be, the time of so many tokens is lost. Of a model
#: that goes on from certain places only, all has to be sent.
TRIED_TOKENS: Final = 256
_REUSED_SHARE: Final = 0.5
_FILE: Final = re.compile(r"slot-(\d+)\.bin")


class LlamaSaver:
    """The saver of one launch: what it restored is remembered until it is verified."""

    def __init__(self) -> None:
        self._restored: tuple[Path, Saved] | None = None

    def refuses(self, spec: LaunchSpec) -> str | None:
        """Return why a state cannot be kept with these settings, or None. Reads files."""
        return why_not(placeholders.filled(spec, 0))

    def setup(self, spec: LaunchSpec) -> str:
        """Return the settings that a file of a slot depends on, as JSON. Reads the file system."""
        spec = placeholders.filled(spec, 0)
        program = llama_server.find(spec)
        embedded = program is not None and program.embedded
        try:
            settings = read_settings(spec, spec.args, embedded=embedded)
        except SettingsError as error:
            return f"unknown: {error}"
        return json.dumps(depends_on(spec, settings), sort_keys=True)

    def other_build(self, was: str, now: str) -> str:
        """Say that the engine is another build."""
        return other_build(was, now)

    async def save(self, server: Server, folder: Path) -> Saved | None:
        """Have each slot that holds a conversation write a file. Raises EngineError."""
        files, tokens = [], 0
        for number, held in await self._idle_slots(server):
            name = f"slot-{number}.bin"
            answer = await requests.post(server, f"/slots/{number}?action=save", {"filename": name})
            count, written = _count(answer, "n_saved"), _count(answer, "n_written")
            if count == 0 and held >= LEAST_TOKENS:
                # An answer of 200 and a file without anything in it: seen where another slot was meant.
                raise EngineError(f"slot {number} holds {held} tokens, but the server saved none of them")
            if count < LEAST_TOKENS:
                continue
            size = await anyio.to_thread.run_sync(_size, folder / name, abandon_on_cancel=True)
            if size == 0 or size < written:
                raise EngineError(
                    f"slot {number}: the server says it wrote {written} bytes, the file has {size}"
                )
            files.append(name)
            tokens += count
        return Saved(tuple(sorted(files)), tokens) if files else None

    async def restore(self, server: Server, folder: Path, saved: Saved) -> None:
        """Have each slot read its file. Raises EngineError."""
        restored = 0
        for name in saved.files:
            restored += await _restore_slot(server, name)
        if saved.tokens is not None and restored != saved.tokens:
            raise EngineError(f"{saved.tokens} tokens were saved, but the server restored {restored}")
        self._restored = folder, saved

    async def reused(self, server: Server) -> Trial | None:
        """Return how many tokens of the longest conversation are used again when they are sent; too few count as 0.

        Asked before it serves anybody: later only a request that goes on where another ended could tell, and /slots
        forgets the figure with the end of each request. The slot is restored anew afterwards, for the asking changes
        the places that it can go back to.
        """
        if self._restored is None:
            return None
        folder, saved = self._restored
        lists = {}
        for name in saved.files:
            found = await anyio.to_thread.run_sync(tokens_in, folder / name, abandon_on_cancel=True)
            if found:
                lists[name] = found
        if not lists:
            return None
        name = max(sorted(lists), key=lambda n: len(lists[n]))
        whole = await anyio.to_thread.run_sync(goes_back, server.spec, abandon_on_cancel=True)
        prompt = lists[name] if whole else lists[name][:TRIED_TOKENS]
        body = {"prompt": prompt, "n_predict": 1, "id_slot": _slot_of(name), "cache_prompt": True}
        answer = await requests.post(server, "/completion", body)
        await _restore_slot(server, name)
        timings = answer.get("timings") if isinstance(answer, dict) else None
        cached = timings.get("cache_n") if isinstance(timings, dict) else None
        if not isinstance(cached, int):
            return None
        sent = len(prompt)
        return Trial(cached if cached >= sent * _REUSED_SHARE else 0, sent)

    async def _idle_slots(self, server: Server) -> list[tuple[int, int]]:
        """Return number and tokens of each slot that computes nothing. Those that do get a moment to end."""
        found: Any = []
        with anyio.move_on_after(BUSY_SECONDS):
            while True:
                found = await requests.get(server, "/slots")
                if not isinstance(found, list):
                    raise EngineError("its answer to GET /slots is no list of slots")
                if not any(isinstance(slot, dict) and slot.get("is_processing") for slot in found):
                    break
                await anyio.sleep(_BUSY_POLL)
        slots = [s for s in found if isinstance(s, dict) and isinstance(s.get("id"), int)]
        return [(s["id"], _count(s, "n_prompt_tokens")) for s in slots if not s.get("is_processing")]


async def _restore_slot(server: Server, name: str) -> int:
    number = _slot_of(name)
    answer = await requests.post(server, f"/slots/{number}?action=restore", {"filename": name})
    count = _count(answer, "n_restored")
    if count == 0:
        raise EngineError(f"the server restored nothing into slot {number}")
    return count


def _slot_of(name: str) -> int:
    found = _FILE.fullmatch(name)
    if found is None:
        raise EngineError(f"{name} is no file of a slot")
    return int(found[1])


def _count(answer: Any, key: str) -> int:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
