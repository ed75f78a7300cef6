"""What a real llama.cpp knows of a conversation survives an eviction, or the model starts cold and says why."""

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manager import CHAT, SOON, Manager, running
from random_gguf import RandomModel, write_random
from support import wait_for

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

#: About a token each for this vocabulary, so some 1,900 tokens.
LONG = " ".join(f"item {i} is number {i * 7 % 101}." for i in range(58))
SHORTER = LONG[: len(LONG) // 4]
DENSE = RandomModel("dense", layers=4)
#: What is computed anew behind what was restored: the second turn, and little more.
MOST_ANEW = 200


class Talk:
    """One model with a conversation."""

    def __init__(self, manager: Manager, weights: Path, name: str = "talk", **more: object) -> None:
        self.manager, self.name = manager, name
        self.entry: dict[str, object] = {
            "engine": "llama.cpp",
            "weights": str(weights),
            "context": {"max_tokens": 4096, "slots": 2},
            "state": {"save": True},
            **more,
        }
        self.turns: list[dict[str, str]] = []

    def write(self, **more: object) -> None:
        """Put the model's entry in force, beside one of the same model without a state."""
        self.entry |= more
        before = self.generation() if self.manager.process is not None else None
        plain = {**self.entry, "state": {"save": False}}
        self.manager.write({self.name: self.entry, "plain": plain}, memory=2000)
        if before is not None:
            wait_for(lambda: self.generation() != before, SOON, "the manifest to be in force")

    def generation(self) -> int:
        """Return the generation of the manifest in force."""
        return int(self.manager.status()["manifest"]["generation"])

    def say(self, text: str) -> dict[str, Any]:
        """Add a turn and return llama.cpp's timings of it."""
        self.turns.append({"role": "user", "content": text})
        body = {"model": self.name, "messages": self.turns, "max_tokens": 8, "temperature": 0}
        answer = self.manager.client.post(CHAT, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        self.turns.append({"role": "assistant", "content": found["choices"][0]["message"]["content"] or ""})
        timings: dict[str, Any] = found["timings"]
        return timings

    def evict(self, *, by_command: bool = False) -> str:
        """Have it unloaded by a person; return what became of its state."""
        if by_command:
            done = self.manager.cli("evict", self.name)
            assert done.returncode == 0, done.stderr
        else:
            answer = self.manager.client.post(f"/api/v1/models/{self.name}/evict")
            assert answer.status_code == 202, answer.text
        saved = self.manager.wait_model(self.name, state="cold")["saved"]
        note: str = saved["note"] if saved is not None else ""
        return note

    @property
    def place(self) -> Path:
        """Where its state lies."""
        return self.manager.state_dir / "states" / self.name


@pytest.fixture
def talk(manager: Manager, tmp_path: Path) -> Talk:
    """A dense model, loaded at its first turn."""
    made = Talk(manager, write_random(DENSE, tmp_path))
    made.write()
    manager.start()
    return made


def test_a_conversation_goes_on_where_it_was(talk: Talk) -> None:
    first = talk.say(LONG)
    assert (first["cache_n"], first["prompt_n"] > 1500) == (0, True)
    note = talk.evict(by_command=True)
    assert note.startswith(f"state saved: {first['prompt_n'] + 7} tokens, ")
    kept = talk.manager.model("talk")["saved"]
    assert kept["bytes"] > 1_000_000
    assert {file.stat().st_mode & 0o777 for file in (talk.place / "files").iterdir()} == {0o600}
    assert talk.place.stat().st_mode & 0o777 == 0o700

    second = talk.say("and now?")
    assert second["cache_n"] > 1500
    assert second["prompt_n"] * 5 <= first["prompt_n"]
    [(reason, text)] = talk.manager.events("state-restored")
    assert reason == "StateRestored"
    assert "; a trial with 256 of its tokens, once for this setup, used 25" in text
    assert "state        kept: " in talk.manager.cli("explain", "talk").stdout

    # Of the same model without a state nothing is left.
    plain = Talk(talk.manager, Path(str(talk.entry["weights"])), "plain")
    plain.turns = talk.turns[:-2]
    assert plain.say("and now?")["cache_n"] == 0
    plain.evict()
    anew = plain.say("and now?")
    assert (anew["cache_n"], anew["prompt_n"] > first["prompt_n"]) == (0, True)
    assert talk.manager.model("plain")["saved"] is None
    print(f"prompt: {second['prompt_ms']:.0f} ms with its state, {anew['prompt_ms']:.0f} ms without")

    # The next time is trusted; and a stop of reconcile itself saves, too.
    talk.evict()
    assert talk.say("and then?")["prompt_n"] <= MOST_ANEW
    assert "trial" not in talk.manager.events("state-restored")[-1][1]
    assert talk.manager.stop(30) == 0
    talk.manager.start()
    assert talk.say("and at last?")["prompt_n"] <= MOST_ANEW
    assert talk.manager.events("cold-start") == []


def other_cache(talk: Talk) -> None:
    talk.write(context={"max_tokens": 4096, "slots": 2, "cache_type": "q8_0"})


def changed_file(talk: Talk) -> None:
    [file] = (talk.place / "files").iterdir()
    with file.open("r+b") as out:
        out.seek(file.stat().st_size // 2)
        out.write(b"\xff" * 64)


def garbage(talk: Talk) -> None:
    """Leave a file that no server can read, with a record that says it is what was saved."""
    [file] = (talk.place / "files").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 3 :] = os.urandom(len(data) - len(data) // 3)
    data[12:16] = b"\xff" * 4
    file.write_bytes(data)
    record = json.loads((talk.place / "state.json").read_text())
    record["files"][0]["digest"] = hashlib.blake2b(data, digest_size=16).hexdigest()
    (talk.place / "state.json").write_text(json.dumps(record))


def test_another_state_of_things_is_a_cold_start(talk: Talk) -> None:
    changes: tuple[tuple[Callable[[Talk], None], str], ...] = (
        (other_cache, "settings it depends on were changed since"),
        (changed_file, r"slot-\d.bin was changed or is damaged"),
        (garbage, r"/slots/\d\?action=restore answers 400: Unable to restore slot.*"),
    )
    for number, (change, said) in enumerate(changes, 1):
        talk.turns = []
        talk.say(SHORTER)
        assert talk.evict().startswith("state saved")
        change(talk)
        again = talk.say("and now?")
        assert (again["cache_n"], again["prompt_n"] > 400) == (0, True), said
        events = wait_for(lambda: talk.manager.events("cold-start")[number - 1 :], 5, said)  # noqa: B023
        assert [reason for reason, _ in events] == ["ColdStart"]
        assert re.fullmatch(f"cold start: {said}", events[0][1])
        assert talk.manager.model("talk")["saved"]["bytes"] == 0
        assert list((talk.place / "files").iterdir()) == []
    # It is the next state that counts.
    assert talk.evict().startswith("state saved")
    assert talk.say("and then?")["prompt_n"] <= MOST_ANEW


def test_what_a_server_died_of_is_not_restored_again(talk: Talk) -> None:
    talk.say(SHORTER)
    talk.evict()
    # It dies at once after it was restored, so the state may be why: it is not tried again.
    talk.say("and now?")
    [pid] = talk.manager.wait_ready("talk")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid), 5, "its end")
    talk.manager.wait_log("model died")
    assert talk.say("and then?")["cache_n"] == 0
    [(_, text)] = talk.manager.events("cold-start")
    assert text == "cold start: the process that it was restored into died soon afterwards"


def test_windows_and_recurrent_layers_go_on_from_a_place_near_the_end(
    manager: Manager, tmp_path: Path
) -> None:
    models = (
        RandomModel("windows", arch="gemma3", layers=6, window=128),
        RandomModel("recurrent", arch="mamba"),
        RandomModel("hybrid", arch="lfm2"),
    )
    talks = [Talk(manager, write_random(model, tmp_path), model.name) for model in models]
    manager.write({t.name: {**t.entry, "memory": {"steady": "300MiB"}} for t in talks}, memory=2000)
    manager.start()
    for talk in talks:
        first = talk.say(LONG)
        assert talk.evict().startswith("state saved")
        second = talk.say("and now?")
        assert second["prompt_n"] * 5 <= first["prompt_n"], (talk.name, manager.events("cold-start"))
        assert [reason for reason, _ in manager.events("state-restored", talk.name)] == ["StateRestored"]
    known = json.loads((manager.state_dir / "states" / ".proofs.json").read_text())
    assert list(known.values()) == [True] * len(talks)


def test_chats_that_grow_over_many_unloads_keep_their_slots(manager: Manager, tmp_path: Path) -> None:
    """`python -m benchmarks state` does the same twenty times."""
    context = {"max_tokens": 2048, "slots": 3}
    chats = [Talk(manager, write_random(DENSE, tmp_path), context=context) for _ in range(3)]
    chats[0].write()
    manager.start()
    held = [0, 0, 0]
    for turn in range(4):
        for number, chat in enumerate(chats):
            seen = chat.say(f"chat {number * 37} says {turn}: {SHORTER[number * 40 :][:150]}")
            # What is computed anew is the new turn; the end of the last answer is put into the template again.
            assert seen["cache_n"] >= held[number] - 8, (turn, number, seen)
            held[number] = seen["cache_n"] + seen["prompt_n"]
        assert chats[0].evict().startswith("state saved: ")
        files = sorted((chats[0].place / "files").iterdir())
        assert [file.name for file in files] == ["slot-0.bin", "slot-1.bin", "slot-2.bin"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert sorted(os.listdir(chats[0].place)) == ["files", "state.json"]
        assert sum(f.stat().st_size for f in files) == manager.model("talk")["saved"]["bytes"]
    assert manager.events("cold-start") == []
