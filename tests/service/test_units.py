"""The units as text: golden files, what the platform's own reader makes of them, and escaping."""

import os
import plistlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_files import assert_golden
from reconciler.service.launchd_text import plist_text
from reconciler.service.settings import MARKER, RECORD, ServiceError, Settings, recorded
from reconciler.service.systemd_text import command, quoted, unit_text

DESK = Settings(
    program=("/opt/reconcile/bin/python", "-P", "-X", "faulthandler"),
    manifest="/home/ann/desk/manifests",
    state_dir="/home/ann/.local/state/reconciler",
    stop_seconds=260,
    listen="127.0.0.1:8080",
    env={"PATH": "/usr/local/bin:/usr/bin:/bin", "RECONCILE_LOG": "text"},
)
MAC = replace(
    DESK,
    manifest="/Users/ann/desk/manifests",
    state_dir="/Users/ann/Library/Application Support/reconciler",
    logs="/Users/ann/Library/Logs",
)
#: Everything that has a meaning in a unit, a shell or XML.
ODD = "a b  100% \"q\" 'q' $HOME ${X} \\x41 \\ Käse ; # --x-- <&> {} [u] ~ * \u2028 é\u0301"
#: Characters that paths of files may have; those that are no UTF-8 are lone surrogates.
PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
BYTES = (
    st.binary(max_size=12)
    .filter(lambda b: b"\0" not in b)
    .map(lambda b: b.decode("utf-8", "surrogateescape"))
)


def words(text: str) -> list[str]:
    """Read a line of quoted words as systemd.syntax(7) and systemd.service(5) say, up to `$`."""
    found, place = [], 0
    while place < len(text):
        assert text[place] == '"'
        place, word = place + 1, bytearray()
        while text[place] != '"':
            if text.startswith("\\x", place):
                word.append(int(text[place + 2 : place + 4], 16))
                place += 4
            elif text[place] == "\\":
                assert text[place + 1] in '\\"'
                word += text[place + 1].encode()
                place += 2
            else:
                word += text[place].encode()
                place += 1
        found.append(expanded(word.decode("utf-8", "surrogateescape"), "%"))
        place += 1
        assert text[place : place + 1] in ("", " ")
        place += 1
    return found


def expanded(text: str, mark: str) -> str:
    """Read doubled marks; a single one would be expanded to something else."""
    assert mark not in text.replace(mark * 2, "")
    return text.replace(mark * 2, mark)


def test_golden_units() -> None:
    assert_golden("service-user.txt", unit_text(DESK, "reconcile", system=False))
    assert_golden("service-system.txt", unit_text(replace(DESK, user="ann"), "reconcile", system=True))
    assert_golden("service-agent.txt", plist_text(MAC, "reconcile"))
    assert_golden("service-daemon.txt", plist_text(replace(MAC, user="ann", listen=None), "desk"))


@pytest.mark.parametrize("odd", [ODD, "plain", "-->", "]]>"])
def test_what_a_unit_was_made_from_can_be_read_from_it(odd: str) -> None:
    settings = replace(DESK, manifest=f"/m/{odd}", state_dir=f"/s/{odd}", env={"PATH": f"/p/{odd}"[:20]})
    for text in (unit_text(settings, "x", system=False), plist_text(settings, "x")):
        assert recorded(text) == settings
    assert recorded(unit_text(settings, "x", system=True).replace(MARKER, "")) is None
    assert recorded(f"# {MARKER}\n# {RECORD}{{}}\n") is None


def test_a_property_list_has_the_keys_and_types_of_launchd() -> None:
    odd = replace(MAC, manifest=f"/Users/ann/{ODD}", user="ann")
    read = plistlib.loads(plist_text(odd, "desk").encode())
    assert read == {
        "Label": "local.reconciler.desk",
        "ProgramArguments": [
            *(*odd.program, "-m", "reconciler", odd.manifest),
            *("--state-dir", odd.state_dir, "--listen", "127.0.0.1:8080"),
        ],
        "EnvironmentVariables": dict(odd.env),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 5,
        "ExitTimeOut": 260,
        "ProcessType": "Interactive",
        "LowPriorityIO": False,
        "LowPriorityBackgroundIO": False,
        "SoftResourceLimits": {"NumberOfFiles": 10240},
        "Umask": 0o077,
        "StandardOutPath": "/Users/ann/Library/Logs/desk.log",
        "StandardErrorPath": "/Users/ann/Library/Logs/desk.log",
        "UserName": "ann",
    }
    assert "UserName" not in plistlib.loads(plist_text(MAC, "desk").encode())


@given(st.lists(PATHS | BYTES, max_size=4))
def test_systemd_reads_back_every_word(arguments: list[str]) -> None:
    line = command(("/usr/bin/python3", *arguments))
    assert line.isprintable()
    first, *rest = words(line)
    assert first == "/usr/bin/python3"
    as_bytes = [w.encode("utf-8", "surrogateescape") for w in arguments]
    assert [expanded(w, "$").encode("utf-8", "surrogateescape") for w in rest] == as_bytes


@given(PATHS)
def test_variables_keep_their_dollars(value: str) -> None:
    assert words(quoted(f"NAME={value}")) == [f"NAME={value}"]


@pytest.mark.parametrize(
    "program", ['/a"b/python', "/a'b/python", "/a\\b/python", "/a$b/python", "/a\nb/python"]
)
def test_a_program_that_systemd_cannot_start_is_refused(program: str) -> None:
    with pytest.raises(ServiceError, match="install reconcile into a folder without them"):
        unit_text(replace(DESK, program=(program,)), "x", system=False)


def test_what_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(ServiceError, match="systemd takes no variable like PATH='/a\\\\x1b'"):
        unit_text(replace(DESK, env={"PATH": "/a\x1b"}), "x", system=False)
    with pytest.raises(ServiceError, match="NUL"):
        quoted("a\0b")
    for manifest in ("/a\x1b", "/a\udcff"):
        with pytest.raises(ServiceError, match="launchd takes no path"):
            plist_text(replace(MAC, manifest=manifest), "x")


# -- what systemd itself says --------------------------------------------------------------------------------------


def verified(path: Path, *, system: bool) -> str:
    """Return what `systemd-analyze verify` says of a unit; skip where there is none."""
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    scope = "--system" if system else "--user"
    argv = [program, scope, "verify", "--man=no", str(path)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(path.parent)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=50, check=False)
    said = f"{done.stdout}{done.stderr}"
    # Units of the machine are read along with ours, and may have faults of their own.
    ours = [line for line in said.splitlines() if path.name in line or str(path) in line]
    return "\n".join(ours) if ours or done.returncode == 0 else said


def link_python(folder: Path) -> str:
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    return str(folder / "python")


@pytest.mark.parametrize("system", [False, True])
def test_systemd_finds_no_fault(tmp_path: Path, system: bool) -> None:
    odd = "with blank 100% Käse ; # [x]"
    program = link_python(tmp_path / odd)
    settings = Settings(
        (program, "-P"), f"/m/{ODD}", f"/s/{ODD}", 90, env={"PATH": f"/p/{ODD}".replace("\u2028", "")}
    )
    unit = tmp_path / "desk.service"
    unit.write_text(unit_text(settings, "desk", system=system))
    assert verified(unit, system=system) == ""
    # It looks for the program: what it read is what is there.
    Path(program).unlink()
    assert f"Command {program} is not executable" in verified(unit, system=system)


def test_systemd_finds_a_fault_where_there_is_one(tmp_path: Path) -> None:
    unit = tmp_path / "desk.service"
    unit.write_text(unit_text(DESK, "desk", system=False).replace("KillMode=process", "KillMode=gently"))
    assert "Failed to parse kill mode" in verified(unit, system=False)
