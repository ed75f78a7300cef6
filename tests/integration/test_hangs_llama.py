"""A real llama.cpp that is stopped under a stream: in time it goes on, and too late it is replaced."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.acts import pause
from manager import SOON, Manager, Streaming, running
from nervous import Nervous, causes
from support import wait_for
from tiny_gguf import context_bytes_per_token, write_llama

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

PAD = 60
TOKENS = 300
#: Seconds until what is stopped is given up: the machine may be busy with other tests.
SILENCE = 4.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """One nervous manager that is not started yet."""
    with Nervous(tmp_path / "nervous", env={"SILENCE": str(SILENCE)}) as made:
        yield made


def long_stream(manager: Manager) -> Streaming:
    """Begin a stream of many tokens."""
    return Streaming(manager.url, "alpha", max_tokens=TOKENS, ignore_eos=True)


def test_a_llama_cpp_that_is_stopped_under_a_stream(manager: Manager) -> None:
    weights = write_llama(Path(manager.tag("alpha")) / "model.gguf", pad_mib=PAD)
    context = {"max_tokens": 1024, "bytes_per_token": context_bytes_per_token(pad_mib=PAD)}
    manager.write(
        {"alpha": {"engine": "llama.cpp", "weights": str(weights), "context": context, "residency": "warm"}}
    )
    manager.start()
    [pid] = manager.wait_ready("alpha")

    stream = long_stream(manager)
    pause([pid])
    before = len(stream.events)
    assert before < TOKENS
    manager.wait_condition("Suspect", "alpha", reason="ProcessStopped")
    os.kill(pid, signal.SIGCONT)
    stream.finish(60)
    assert stream.done
    assert len(stream.events) > before
    manager.wait_log("it does not hang", model="alpha")
    assert manager.wait_ready("alpha") == [pid]

    stream = long_stream(manager)
    pause([pid])
    manager.wait_log("model hangs", model="alpha")
    stream.join(SOON)
    assert not stream.is_alive()
    assert not stream.done
    assert stream.events[-1].get("error", {}).get("code") in ("model_hung", None)
    wait_for(lambda: not running(pid), SOON, "the end of the stopped process")
    answer = manager.ask("alpha")
    assert answer.status_code == 200
    assert manager.wait_ready("alpha") != [pid]
    assert causes(manager, "alpha")[:4] == [
        "ProcessStopped",
        "it does not hang",
        "ProcessStopped",
        "model hangs",
    ]
