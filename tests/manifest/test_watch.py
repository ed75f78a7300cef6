"""The watcher sees every way of saving, believes no half-written text, and publishes nothing twice."""

import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from manifest_texts import ENGINES, HEAD
from reconciler.manifest import Applied, ManifestError, ManifestWatcher
from reconciler.manifest import watch as watch_module
from reconciler.manifest.watch_set import watch_set
from support import wait_for_async

pytestmark = pytest.mark.anyio

Save = Callable[[Path, bytes], None]
#: Seconds: longer than any test waits, so that only a notification can be what was noticed.
NEVER = 60.0
SETTLE = 0.3


def text(beta: str = "one", *more: str) -> bytes:
    models = "".join(f"  {name}: {{engine: command, command: [FAKE]}}\n" for name in ("alpha", *more))
    return f"{HEAD}models:\n{models}  beta: {{engine: command, command: [FAKE, {beta}]}}\n".encode()


class Seen(list[Applied | ManifestError]):
    """What has been published, in order."""

    def beta(self) -> str | None:
        """The last word of beta's command in what was published last."""
        return self[-1].launches["beta"].command[-1] if self and isinstance(self[-1], Applied) else None

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        await wait_for_async(lambda: bool(self) and condition(), 10, what)

    async def until_beta(self, word: str) -> None:
        """Wait until the last word of beta's command is `word`."""
        await self.until(lambda: self.beta() == word, f"beta is {word}")


@asynccontextmanager
async def watching(
    path: Path, *, slow: float = NEVER, settle: float = SETTLE
) -> AsyncIterator[tuple[Seen, ManifestWatcher]]:
    """Run a watcher; the first text has been published when the body begins."""
    seen = Seen()
    watcher = ManifestWatcher(path, environ={}, slow=slow, settle=settle, engines=ENGINES)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run, seen.append)
        await wait_for_async(lambda: len(seen) == 1, 10, "the first text is published")
        yield seen, watcher
        tasks.cancel_scope.cancel()


def inplace(target: Path, new: bytes) -> None:
    with target.open("r+b") as file:
        file.truncate(0)
        file.write(new)


def rename(target: Path, new: bytes) -> None:
    beside = target.parent / ".m.tmp"
    beside.write_bytes(new)
    beside.replace(target)


def backup_first(target: Path, new: bytes) -> None:
    backup = target.with_name(target.name + "~")
    target.rename(backup)
    target.write_bytes(new)
    backup.unlink()


def through_link(target: Path, new: bytes) -> None:
    target.resolve().write_bytes(new)


def swap_link(target: Path, new: bytes) -> None:
    other = target.parent / f"v{time.time_ns()}.txt"
    other.write_bytes(new)
    link = target.parent / ".l"
    link.symlink_to(other.name)
    link.replace(target)


def config_map(target: Path, new: bytes) -> None:
    directory = target.parent
    fresh = directory / f"..{time.time_ns()}"
    fresh.mkdir()
    (fresh / target.name).write_bytes(new)
    data = directory / "..data"
    old = data.readlink() if data.is_symlink() else None
    (directory / "..data_tmp").symlink_to(fresh.name)
    (directory / "..data_tmp").replace(data)
    if not target.is_symlink():
        target.unlink(missing_ok=True)
        target.symlink_to(f"..data/{target.name}")
    if old:
        shutil.rmtree(directory / old)


def same_size_same_time(target: Path, new: bytes) -> None:
    before = target.stat()
    assert len(new) == before.st_size
    target.write_bytes(new)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def burst(target: Path, new: bytes) -> None:
    for i in range(10):
        target.write_bytes(new + b"\n" * i)


def prepare(directory: Path, save: Save) -> Path:
    """Lay the first text the way `save` expects it; return the manifest's path."""
    target = directory / "m.yaml"
    if save is through_link:
        (directory / "far").mkdir()
        (directory / "far" / "real.txt").write_bytes(text())
        target.symlink_to("far/real.txt")
    elif save in (swap_link, config_map):
        save(target, text())
    else:
        target.write_bytes(text())
    return target


STYLES = [inplace, rename, backup_first, through_link, swap_link, config_map, same_size_same_time, burst]


@pytest.mark.parametrize("whole_directory", [False, True], ids=["file", "directory"])
@pytest.mark.parametrize("save", STYLES)
async def test_every_style_of_saving_is_seen_more_than_once(
    tmp_path: Path, save: Save, whole_directory: bool
) -> None:
    target = prepare(tmp_path, save)
    async with watching(tmp_path if whole_directory else target) as (seen, watcher):
        for word in ("two", "six", "ten"):
            await anyio.to_thread.run_sync(save, target, text(word))
            await seen.until_beta(word)
        assert watcher.mode == "notify"
        assert all(isinstance(each, Applied) for each in seen)
        if save is not burst:
            assert len(seen) == 4


async def test_a_burst_is_published_a_few_times_and_the_last_wins(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target) as (seen, _):
        for i in range(50):
            await anyio.to_thread.run_sync(rename, target, text(f"w{i}"))
        await seen.until(lambda: seen.beta() == "w49", "the last text counts")
        assert len(seen) < 15


async def test_a_comment_is_another_text_with_the_same_meaning(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target) as (seen, _):
        rename(target, b"# a comment\n" + text())
        await seen.until(lambda: len(seen) == 2, "the comment is seen")
        first, second = seen
        assert isinstance(first, Applied)
        assert isinstance(second, Applied)
        assert (first.digest, first.launches) == (second.digest, second.launches)


async def test_saving_the_same_bytes_again_publishes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target) as (seen, _):
        for _ in range(3):
            rename(target, text())
        rename(target, text("two"))
        await seen.until(lambda: seen.beta() == "two", "the change after them is seen")
        assert len(seen) == 2


@pytest.mark.parametrize(
    "half",
    [b"", text()[:30], text()[:-20], HEAD.encode() + b"models: {}\n", text().replace(b"alpha", b"gamma")],
    ids=["empty", "broken", "cut in a line", "no models", "one model gone"],
)
async def test_a_text_that_lost_something_must_stay_before_it_counts(tmp_path: Path, half: bytes) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target, settle=NEVER) as (seen, watcher):
        target.write_bytes(half)
        await seen.until(lambda: watcher._pending is not None, "the text is noticed")
        target.write_bytes(text("two", "more"))
        await seen.until(lambda: len(seen) > 1, "the whole text is published at once")
        assert seen.beta() == "two"
        assert len(seen) == 2


async def test_a_removal_that_stays_is_published_after_the_wait(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text("one", "more"))
    async with watching(target) as (seen, _):
        begun = time.monotonic()
        target.write_bytes(text())
        await seen.until(lambda: len(seen) > 1, "the removal is published")
        assert time.monotonic() - begun >= SETTLE
        last = seen[-1]
        assert isinstance(last, Applied)
        assert sorted(last.launches) == ["alpha", "beta"]


async def test_a_broken_text_is_published_once_and_the_cure_at_once(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target) as (seen, _):
        target.write_bytes(text() + b"zzz: 1\n")
        await seen.until(lambda: isinstance(seen[-1], ManifestError), "the fault is published")
        target.touch()
        target.write_bytes(text())
        await seen.until(lambda: seen.beta() == "one", "the cure is published")
        assert [type(each) for each in seen] == [Applied, ManifestError, Applied]


async def test_a_broken_first_text_is_published_at_once(tmp_path: Path) -> None:
    target = tmp_path / "m.yaml"
    async with watching(target, settle=NEVER) as (seen, _):
        assert isinstance(seen[0], ManifestError)
        target.write_bytes(text())
        await seen.until(lambda: seen.beta() == "one", "the file that appears is published")


async def test_a_directory_may_vanish_and_come_back(tmp_path: Path) -> None:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "m.yaml").write_bytes(text())
    async with watching(directory) as (seen, _):
        shutil.rmtree(directory)
        await seen.until(lambda: isinstance(seen[-1], ManifestError), "the loss is published")
        directory.mkdir()
        (directory / "m.yaml").write_bytes(text("two"))
        await seen.until(lambda: seen.beta() == "two", "the directory is back")
        (directory / "m.yaml").write_bytes(text("six"))
        await seen.until(lambda: seen.beta() == "six", "and it is watched again")


async def test_a_directory_that_was_away_for_a_moment_is_watched_again(tmp_path: Path) -> None:
    """It is the same one, and so fast back that no look missed it; the system tells no more of what is in it."""
    folder, elsewhere = tmp_path / "manifests", tmp_path / "elsewhere"
    folder.mkdir()
    target = folder / "m.yaml"
    target.write_bytes(text("before"))
    async with watching(folder) as (seen, _):
        for number in range(3):
            folder.rename(elsewhere)
            elsewhere.rename(folder)
            await anyio.sleep(0.3)  # until that has been looked at: only the next save is to be told of
            rename(target, text(f"after{number}"))
            await seen.until_beta(f"after{number}")


async def test_files_of_a_directory_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(text())
    async with watching(tmp_path) as (seen, _):
        (tmp_path / "n.yaml").write_text(f"{HEAD}models: {{gamma: {{}}}}\n")
        await seen.until(
            lambda: len(seen) == 2 and isinstance(seen[-1], Applied), "the new file is published"
        )
        last = seen[-1]
        assert isinstance(last, Applied)
        assert "gamma" in last.launches
        (tmp_path / "n.yaml").unlink()
        await seen.until(lambda: len(seen) == 3, "its removal is published")


async def test_a_change_of_the_file_of_keys_counts(tmp_path: Path) -> None:
    keys = tmp_path / "secret" / "keys.txt"
    keys.parent.mkdir()
    target = tmp_path / "m.yaml"
    target.write_bytes(text() + b"gateway: {api_keys: {file: secret/keys.txt}}\n")
    async with watching(target) as (seen, _):
        assert isinstance(seen[0], ManifestError)
        keys.write_text("k1\n")
        await seen.until(lambda: isinstance(seen[-1], Applied), "the missing file is found")
        keys.write_text("k2\n")
        await seen.until(lambda: len(seen) == 3, "its change is published")
        last = seen[-1]
        assert isinstance(last, Applied)
        assert [key.key for key in last.gateway.api_keys] == ["k2"]


@pytest.mark.parametrize("save", [rename, same_size_same_time])
async def test_without_notifications_it_looks_by_itself_and_says_so(
    tmp_path: Path, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(watch_module, "RustNotify", refuse)
    monkeypatch.setattr(watch_module, "POLL_SECONDS", 0.05)
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target, slow=0.2) as (seen, watcher):
        assert watcher.mode == "polling"
        save(target, text("two"))
        await seen.until(lambda: seen.beta() == "two", "the change is found")
        monkeypatch.undo()
        await seen.until(lambda: watcher.mode == "notify", "it listens again once that is possible")
    assert capsys.readouterr().out.count("manifest_polling") == 1


@pytest.mark.parametrize("suffix", [".yaml", ".txt"])
async def test_a_file_name_that_is_not_utf8_ends_listening_but_not_watching(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch_module, "POLL_SECONDS", 0.05)
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    odd = os.fsencode(tmp_path) + b"/\xff\xfe" + suffix.encode()
    async with watching(tmp_path, slow=1.0) as (seen, watcher):
        with open(odd, "wb"):  # noqa: ASYNC230
            pass
        await seen.until(lambda: watcher.mode == "polling", "the listener has failed")
        if suffix == ".yaml":
            await seen.until(lambda: isinstance(seen[-1], ManifestError), "the file is complained of")
            assert "/\\xff\\xfe.yaml: error: its name is not UTF-8" in str(seen[-1])
            os.unlink(odd)
        target.write_bytes(text("two"))
        await seen.until_beta("two")
        await seen.until(lambda: watcher.mode == "notify", "it listens again")
        watcher.slow = NEVER
        target.write_bytes(text("six"))
        await seen.until_beta("six")
    said = capsys.readouterr().out
    said.encode()
    assert "manifest_polling" in said
    assert "manifest_notified_again" in said


async def test_a_directory_whose_name_is_not_utf8_is_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch_module, "POLL_SECONDS", 0.05)
    directory = tmp_path / os.fsdecode(b"mod\xe8les")
    directory.mkdir()
    target = directory / "m.yaml"
    target.write_bytes(text())
    async with watching(directory) as (seen, watcher):
        assert watcher.mode == "polling"
        rename(target, text("two"))
        await seen.until_beta("two")
    assert capsys.readouterr().out.count("mod\\xe8les") >= 1


async def test_a_fifo_among_the_files_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(text())
    async with watching(tmp_path) as (seen, _):
        os.mkfifo(tmp_path / "n.yaml")
        await seen.until(lambda: isinstance(seen[-1], ManifestError), "the FIFO is complained of")
        (tmp_path / "n.yaml").unlink()
        await seen.until(lambda: isinstance(seen[-1], Applied), "it is gone")


async def test_what_nobody_announces_is_found_by_the_slow_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf:
        def __init__(self, *_: object) -> None: ...

        def watch(self, debounce: int, step: int, timeout: int, stop: Any) -> str:
            stop.wait()
            return "stop"

        def close(self) -> None: ...

    monkeypatch.setattr(watch_module, "RustNotify", Deaf)
    target = tmp_path / "m.yaml"
    target.write_bytes(text())
    async with watching(target, slow=0.1) as (seen, watcher):
        same_size_same_time(target, text("two"))
        await seen.until(lambda: seen.beta() == "two", "the change is found")
        assert watcher.mode == "notify"


async def test_it_ends_when_cancelled(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(text())
    with anyio.fail_after(10):
        async with watching(tmp_path / "m.yaml"):
            pass


def test_only_what_matters_wakes_it(tmp_path: Path) -> None:
    config_map(tmp_path / "m.yaml", text())
    watched = watch_set(tmp_path / "m.yaml", [str(tmp_path / "m.yaml")])
    data = (tmp_path / "..data").resolve()
    assert watched.directories == (str(tmp_path), str(data))
    assert all(watched.concerns(str(p)) for p in (tmp_path / "m.yaml", tmp_path / "..data", data / "m.yaml"))
    assert not watched.concerns(str(tmp_path / "noise.log"))


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert str(tmp_path) in watch_set(tmp_path / "a" / "m.yaml", []).directories


async def test_a_commit_after_the_save_is_told_of_without_a_change_of_the_text(tmp_path: Path) -> None:
    target = tmp_path / "models.yaml"
    target.write_bytes(text())

    def run_git(*arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    run_git("init", "-q")
    run_git("add", "models.yaml")
    async with watching(target, slow=0.05) as (seen, _):
        run_git("commit", "-q", "-m", "first")
        await wait_for_async(lambda: len(seen) == 2, 5, "the commit")
        first, second = seen
        assert isinstance(first, Applied)
        assert isinstance(second, Applied)
        assert first.digest == second.digest
        assert first.source.git_commit is None
        assert second.source.git_commit is not None
        assert not second.source.git_dirty
