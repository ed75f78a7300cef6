"""Saving the manifest while it is in force: only what changed is touched, however it was saved."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from manager import SOON, Asking, Manager, Sampler, Streaming, running
from support import wait_for

Save = Callable[[Path, bytes], None]


def inplace(file: Path, text: bytes) -> None:
    """Truncate, then write in two goes, as some editors do."""
    with file.open("r+b") as opened:
        opened.truncate(0)
        opened.flush()
        opened.write(text[: len(text) // 2])
        opened.flush()
        opened.write(text[len(text) // 2 :])


def rename(file: Path, text: bytes) -> None:
    """Write beside it, then rename over it."""
    draft = file.with_name(".draft")
    draft.write_bytes(text)
    draft.replace(file)


def backup(file: Path, text: bytes) -> None:
    """Rename the old one away, write a fresh one, delete the old one."""
    kept = file.with_name(file.name + "~")
    file.rename(kept)
    file.write_bytes(text)
    kept.unlink()


def link_target(file: Path, text: bytes) -> None:
    """The manifest is a link; the file it leads to is written."""
    Path(os.path.realpath(file)).write_bytes(text)


def link_swap(file: Path, text: bytes) -> None:
    """The link is led to another file."""
    other = file.with_name(f"version-{time.monotonic_ns()}.txt")
    other.write_bytes(text)
    link = file.with_name(".link")
    link.symlink_to(other.name)
    link.replace(file)


def directory_swap(file: Path, text: bytes) -> None:
    """A link to a directory is led to another one and the old directory is deleted, as Kubernetes does it."""
    fresh = file.with_name(f"..{time.monotonic_ns()}")
    fresh.mkdir()
    (fresh / file.name).write_bytes(text)
    data = file.with_name("..data")
    old = data.resolve() if data.is_symlink() else None
    swap = file.with_name("..data_tmp")
    swap.symlink_to(fresh.name)
    swap.replace(data)
    if not file.is_symlink() or os.readlink(file) != f"..data/{file.name}":
        file.unlink(missing_ok=True)
        file.symlink_to(f"..data/{file.name}")
    if old is not None:
        (old / file.name).unlink()
        old.rmdir()


def unchanged_stat(file: Path, text: bytes) -> None:
    """Size and time stay what they were."""
    stat = file.stat()
    assert len(text) == stat.st_size
    file.write_bytes(text)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def burst(file: Path, text: bytes) -> None:
    """Ten saves in half a second: each a manifest of its own, the last one counts."""
    for number in range(10):
        file.write_bytes(text.replace(b"beta-0", f"beta-{number}".encode()) if number < 9 else text)
        time.sleep(0.05)


STYLES = (inplace, rename, backup, link_target, link_swap, directory_swap, unchanged_stat, burst)


def argument(pid: int, option: str) -> str:
    """Return the value of an option on the command line of a process."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return words[words.index(option) + 1]


def test_every_way_of_saving_replaces_only_what_changed(manager: Manager) -> None:
    """One manager, one open stream on alpha, and all styles one after the other."""

    def text(beta: str, comment: str = "0") -> bytes:
        models = {
            "alpha": manager.fake("alpha", "--stream", "800", "--delay", "0.05", residency="warm"),
            "beta": manager.fake("beta", "--version", f"beta-{beta}", residency="warm"),
        }
        return (f"# comment {comment}\n" + manager.text(models)).encode()

    manager.file.write_bytes(text("0"))
    manager.start()
    alpha, beta = manager.wait_ready("alpha", "beta")
    stream = Streaming(manager.url, "alpha")
    generation = 1
    with Sampler({"beta": manager.tag("beta")}) as table:
        for number, save in enumerate(STYLES, 1):
            save(manager.file, text(str(number)))
            what = f"beta replaced after {save.__name__}"
            wait_for(partial(_is_new, manager, beta, f"beta-{number}"), 10, what)
            manager.wait_calm()
            [fresh] = manager.wait_ready("beta")
            assert manager.processes("beta") == [fresh]
            assert not running(beta)
            if save is not burst:
                generation += 1
                assert manager.status()["manifest"]["generation"] == generation, save.__name__
            beta = fresh
        assert table.most(["beta"]) == 1
    at = manager.status()["manifest"]["generation"]
    digest = manager.status()["manifest"]["digest"]
    for number, save in enumerate(STYLES[:-1], 1):
        save(manager.file, text(str(len(STYLES)), comment=str(number)))
    # A last edit that does count: when it is in force, all those before it have been looked at. It touches no process.
    manager.file.write_bytes(text(str(len(STYLES))) + b"defaults: {priority: high, idle_ttl: 5m}\n")
    manager.wait_model("beta", priority=750)
    wait_for(lambda: manager.status()["manifest"]["generation"] > at, SOON, "the edit after the comments")
    assert manager.status()["manifest"]["generation"] == at + 1
    assert manager.status()["manifest"]["digest"] != digest
    assert manager.wait_calm()["manifest"]["generation"] == at + 1
    assert manager.wait_ready("alpha", "beta") == [alpha, beta]
    assert not stream.done
    assert stream.error is None
    numbers = [event["n"] for event in stream.events]
    assert numbers == list(range(len(numbers)))
    assert manager.processes("alpha") == [alpha]


def _is_new(manager: Manager, old: int, version: str) -> bool:
    time.sleep(manager.PAUSE)
    found = manager.model("beta")
    ready = found["state"] == "ready" and found["pid"] != old
    return ready and argument(found["pid"], "--version") == version


BROKEN = """apiVersion: reconciler/v1
machine: {memory: 1000MiB, reserve: 0MiB}
models:
  alpha:
    engine: command
    comand: [x]
    priority: hihg
  beta:
    engine: command
    command: [x, --port, "${port}"]
    memory: {steady: 5 lightyears}
"""


def test_a_broken_file_changes_nothing_and_names_every_error(manager: Manager) -> None:
    models = {name: manager.fake(name, residency="warm") for name in ("alpha", "beta")}
    manager.write(models)
    manager.start()
    before = manager.wait_ready("alpha", "beta")
    good = manager.status()["manifest"]
    manager.file.write_text(BROKEN)
    wait_for(lambda: not manager.status()["manifest"]["valid"], SOON, "a refused manifest")
    status = manager.status()
    places = [line.split(": ")[0] for line in status["manifest"]["refused"]]
    assert places == [f"{manager.file}:{place}" for place in ("6:5", "7:15", "11:22")]
    assert status["manifest"]["generation"] == good["generation"]
    [condition] = [c for c in status["conditions"] if c["type"] == "ManifestValid"]
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert f"{manager.file}:11:22" in condition["message"]
    assert f"generation {good['generation']} stays in force" in condition["message"]
    assert manager.wait_ready("alpha", "beta") == before
    assert manager.ask("alpha").json()["pid"] == before[0]

    manager.write(models | {"beta": manager.fake("beta", "--repaired", residency="warm")})
    wait_for(lambda: manager.status()["manifest"]["valid"], SOON, "a repaired manifest")
    manager.wait_calm()
    alpha, beta = manager.wait_ready("alpha", "beta")
    assert alpha == before[0]
    assert beta != before[1]
    assert manager.status()["manifest"]["refused"] == []
    assert manager.status()["manifest"]["generation"] == good["generation"] + 1


def test_an_edit_during_a_load_ends_that_load_only(manager: Manager) -> None:
    """The new text is loaded; the process with the old one never becomes ready and never runs beside it."""
    models = {"alpha": manager.fake("alpha", residency="warm")}
    manager.write(models | {"beta": manager.fake("beta", "--load", "30", residency="warm")})
    with Sampler({"beta": manager.tag("beta")}) as table:
        manager.start()
        [alpha] = manager.wait_ready("alpha")
        wait_for(lambda: manager.processes("beta"), SOON, "a load that has begun")
        manager.write(models | {"beta": manager.fake("beta", residency="warm")})
        manager.wait_ready("beta")
        assert manager.wait_ready("alpha") == [alpha]
    assert table.most(["beta"]) == 1
    assert manager.log("given up", model="beta")
    assert manager.model("beta")["failures"] == 0, "an edit is no failure of the model"


def test_removed_models_go_and_who_asks_for_them_is_told(manager: Manager) -> None:
    """One is loaded, the other is being loaded, for a client that waits."""
    models = {"alpha": manager.fake("alpha", residency="warm")}
    loading = manager.fake("loading", "--load", "30")
    manager.write(models | {"loaded": manager.fake("loaded", residency="warm"), "loading": loading})
    manager.start()
    [alpha, _] = manager.wait_ready("alpha", "loaded")
    waiting = Asking(manager, "loading")
    manager.wait_model("loading", state="loading")
    manager.write(models)
    assert waiting.status() == 404
    for name in ("loading", "loaded"):
        wait_for(partial(_gone, manager, name), SOON, f"the end of {name}")
        answer = manager.ask(name)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert [m["name"] for m in manager.wait_calm()["models"]] == ["alpha"]
    assert manager.wait_ready("alpha") == [alpha]
    assert manager.log("evict", model="loaded", reason="Removed")


def _gone(manager: Manager, model: str) -> bool:
    return not manager.processes(model)
