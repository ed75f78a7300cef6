"""Log files stay small, keep what triage needs, and never leave their directory."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.host import Host, Logs
from reconciler.host.logs import HEAD_BYTES, clean, safe_name
from support import FAKE, wait_for_async

from .conftest import Bench

CAP = 8 << 20


def write(logs: Logs, model: str, text: bytes, launch: str = "l") -> None:
    output = logs.open(model)
    logs.begin(output, launch)
    os.write(output, text)
    os.close(output)


def on_disk(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


@pytest.mark.anyio
async def test_a_burst_of_60_mb_before_a_crash(bench: Bench) -> None:
    launched = await bench.start(*FAKE, "--port", "{port}", "--print-mib", "60", "--exit", "7")
    assert (await bench.host.wait_exit(launched.process)).code == 7
    logs, directory = bench.host.logs, bench.state_dir / "logs"
    assert on_disk(directory) > 60 << 20
    assert logs.trim("m")
    assert on_disk(directory) <= CAP
    head, old, _ = logs.files("m")
    assert f"fake engine {launched.process.pid} listening" in head.read_text()
    assert "line 00000001 " in head.read_text()
    assert old.read_text().endswith("burst of 314572 lines done\nfake engine leaves with 7\n")
    assert old.read_bytes().startswith(b"line ")  # cut between lines, not within one
    assert logs.tail("m", 2) == ["burst of 314572 lines done", "fake engine leaves with 7"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}
    assert not logs.trim("m")


def test_what_a_launch_wrote_before_it_died_is_rotated_without_it(tmp_path: Path) -> None:
    """At the next look, or else when the next launch begins, which then has a head of its own."""
    logs = Logs(tmp_path, 4 * HEAD_BYTES)
    for begin_next in (logs.trim_all, lambda: os.close(logs.open("m"))):
        write(logs, "m", b"dies flooding\n" + b"x" * 99 + b"\n" * 400_000, "first")
        begin_next()
        assert logs.path("m").stat().st_size == 0
        assert on_disk(tmp_path) <= 4 * HEAD_BYTES
        assert "dies flooding" in logs.files("m")[0].read_text()
        write(logs, "m", b"the next\n", "second")
        assert logs.tail("m", 1) == ["the next"]
        assert "dies flooding" in logs.files("m")[0].read_text(), "still that of the launch that flooded"
        logs.path("m").unlink()


@pytest.mark.anyio
async def test_a_process_writes_on_after_its_file_was_emptied(bench: Bench) -> None:
    script = 'i=0; while :; do echo "line $i"; i=$((i+1)); done'
    launched = await bench.start("sh", "-c", script)
    small = Logs(bench.state_dir / "logs", 4 * HEAD_BYTES)
    for _ in range(5):
        await wait_for_async(lambda: small.trim("m"), 10, "it has written enough for a rotation")
    await bench.host.stop(launched.process, launched.launch_id, grace=0)
    head, old, current = small.files("m")
    assert "\nline 0\nline 1\n" in head.read_text()  # still the first lines of the launch
    # The first line is cut by the cap, and the last may be: the copy can fall into the middle of a write.
    numbers = [int(line.split()[1]) for line in old.read_text().splitlines()[1:-1]]
    assert numbers == sorted(numbers)
    assert b"\0" not in current.read_bytes()  # appended at the new end, not behind a hole
    assert len(small.tail("m", 5)) == 5


def test_rotation_keeps_the_head_of_the_latest_launch(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 4 * HEAD_BYTES)
    for launch in ("first", "second"):
        write(logs, "m", f"{launch} starts\n".encode() + b"x" * 99 + b"\n" * 100_000, launch)
    assert logs.trim("m")
    head = logs.files("m")[0].read_text()
    assert "second starts" in head
    assert "first starts" not in head


def test_the_tail_is_of_the_current_launch_only_and_clean(tmp_path: Path) -> None:
    logs = Logs(tmp_path, CAP)
    assert logs.tail("m", 3) == []
    write(logs, "m", b"old error\n", "one")
    write(logs, "m", b"\x1b[31mred\x1b[0m\n\n10%\r50%\r100%\nbad \xff\x00\x07byte\n  \nlast\n", "two")
    assert logs.tail("m", 10) == ["red", "100%", "bad \ufffdbyte", "last"]
    assert logs.tail("m", 1) == ["last"]
    write(logs, "m", b"", "three")
    assert logs.tail("m", 10) == []


def test_the_logs_of_removed_models_go(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 4 * HEAD_BYTES)
    for model in ("kept", "gone", "a/b"):
        write(logs, model, b"x\n" * 300_000)
        logs.trim(model)
        write(logs, model, b"y\n")
    logs.forget(["kept", "a/b"])
    names = {safe_name("kept"), safe_name("a/b")}
    assert {file.name.split(".log")[0] for file in tmp_path.iterdir()} == names
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("qwen3-30b_a3.1", "qwen3-30b_a3.1"),
        ("org/model:latest", "org%2fmodel%3alatest"),
        ("../../etc/passwd", "%2e./".replace("/", "%2f") + "..%2fetc%2fpasswd"),
        ("..", "%2e."),
        (".", "%2e"),
        ("a\nb\0c", "a%0ab%00c"),
        ("größe", "gr%c3%b6%c3%9fe"),
    ],
)
def test_names_become_plain_file_names(model: str, name: str) -> None:
    assert safe_name(model).lower() == name.lower()


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_no_name_leaves_the_directory_and_no_two_share_a_file(one: str, other: str) -> None:
    logs = Logs(Path("/state/logs"), CAP)
    for file in logs.files(one):
        assert file.parent == Path("/state/logs")
        assert file.name.isascii()
        assert file.name.isprintable()
        assert len(file.name) < 200
    if one != other:
        assert not {f.name.lower() for f in logs.files(one)} & {f.name.lower() for f in logs.files(other)}


@given(st.text())
def test_a_cleaned_line_holds_no_control_character(line: str) -> None:
    assert not [c for c in clean(line) if (ord(c) < 32 and c != "\t") or 127 <= ord(c) < 160]


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("unharmed")
    logs = Logs(tmp_path / "logs", CAP)
    (tmp_path / "logs").mkdir()
    logs.path("m").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        logs.open("m")
    assert target.read_text() == "unharmed"


def test_a_cap_too_small_for_its_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="log cap"):
        Host(tmp_path, "o", log_cap=1000)


def test_a_folder_that_cannot_be_looked_into_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[Path]:
        raise OSError(errno.EMFILE, "Too many open files")

    logs = Logs(tmp_path / "logs", CAP)
    os.close(logs.open("m"))
    logs.path("m").write_bytes(b"x" * CAP)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", fails)
        logs.trim_all()
    assert logs.size("m") == CAP
    logs.trim_all()
    assert logs.size("m") == 0
