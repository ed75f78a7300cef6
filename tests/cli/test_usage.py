"""The command line itself: help, usage errors, exit codes, and how quickly it answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reconciler
from golden_files import assert_golden
from reconciler.cli import main
from reconciler.cli.output import colour
from reconciler.cli.run import VERBS
from reconciler.render.schemas import SCHEMAS


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_texts(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*filter(None, [verb]), "--help"]) == 0
    text = capsys.readouterr().out
    assert_golden(f"help{'-' + verb if verb else ''}.txt", text)
    assert ("RECONCILE_API_KEY" in text) is (
        verb
        not in ("init", "validate", "diff", "schema", "doctor", "simulate", "service", "import", "completion")
    )


def test_python_m_is_the_same_program() -> None:
    command = [sys.executable, "-m", "reconciler", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["reconcile", reconciler.__version__]


def test_every_verb_is_in_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    main(["--help"])
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")][: len(VERBS)] == list(
        VERBS
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--bogus"], "Unknown option"),
        (["explain"], "MODEL"),
        (["status", "extra"], "extra"),
        (["schema", "nothing"], "nothing"),
        (["--once", "--dry-run"], "exclude each other"),
        (["--rev", "HEAD"], "--rev works with --dry-run only"),
        (["--detailed-exitcode"], "--detailed-exitcode works with --dry-run only"),
        (["--dry-run", "--listen", "127.0.0.1:1"], "--listen has no effect"),
        (["--dry-run", "--log-requests"], "--log-requests has no effect"),
        (["statsu"], '"statsu" is neither a command nor a file or directory; did you mean "status"?\n'),
        (["frob"], f'"frob" is neither a command nor a file or directory\ncommands: {", ".join(VERBS)}\n'),
        (["frob", "chat", "-x"], '"frob" is neither a command nor a file or directory\n'),
        (
            ["evicted", "chat"],
            '"evicted" is neither a command nor a file or directory; did you mean "evict"?',
        ),
        (["logs", "chat", "-n", "-1"], "--lines must not be below zero"),
        (["load", "chat", "--timeout", "0"], "--timeout must be above zero"),
        (["logs", "chat", "-n", "many"], "many"),
    ],
)
def test_usage_errors_exit_64(
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    verb = f"{argv[0]} " if argv[0] in VERBS else ""
    assert said.err.endswith(f"see: reconcile {verb}--help\n")


@pytest.mark.parametrize("verb", [["budget"], ["measure", "chat"], ["status"], ["--dry-run"], ["doctor"]])
def test_a_state_dir_that_is_none_is_said(
    verb: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("manifests").mkdir()
    Path("manifests/desk.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    assert main([*verb, "--state-dir", "/dev/null"]) == 1
    assert capsys.readouterr().err == "error: the state directory /dev/null is not a directory\n"


def test_a_path_that_is_called_like_no_verb_is_a_missing_manifest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--dry-run", "desk.yaml", "--state-dir", str(tmp_path / "s")]) == 1
    assert "desk.yaml: error: " in capsys.readouterr().err


def test_no_manifests_folder_is_no_mistyped_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--dry-run", "--state-dir", str(tmp_path / "s")]) == 1
    assert "manifests: error: " in capsys.readouterr().err


def test_a_path_that_only_a_revision_has_is_no_mistyped_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--dry-run", "--rev", "HEAD", "desk", "--state-dir", str(tmp_path / "s")]) == 1
    assert "neither" not in capsys.readouterr().err


def test_the_usage_of_hold_says_where_the_command_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hold", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Usage: reconcile hold [OPTIONS] MODEL [-- COMMAND...]\n" in text
    assert "ARGS" not in text


@pytest.mark.parametrize("which", ["manifest", *SCHEMAS])
def test_schema_prints_the_committed_file(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", which]) == 0
    committed = Path(__file__).parents[2] / "schemas" / f"{which}.v1.json"
    assert capsys.readouterr().out == committed.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_when_colour_is_used(
    terminal: bool, environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colour(Stream()) is expected


def test_ctrl_c_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reconciler.cli.client.find_loop", interrupted)
    assert main(["status"]) == 130


def test_an_os_error_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise PermissionError(13, "Permission denied", "/there")

    monkeypatch.setattr("reconciler.cli.client.find_loop", refused)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == "error: [Errno 13] Permission denied: '/there'\n"


def test_a_reader_that_leaves_is_no_traceback() -> None:
    code = "import sys; from reconciler.cli import main; sys.exit(main(['schema', 'status']))"
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_light_verbs_import_nothing_heavy() -> None:
    heavy = {
        "pydantic",
        "starlette",
        "uvicorn",
        "httpx",
        "structlog",
        "psutil",
        "ruamel",
        "watchfiles",
        "sqlite3",
    }
    code = (
        "import sys; from reconciler.cli import main; code = main(['status', '--state-dir', '/nonexistent/x']);"
        "print(code, *sorted(m for m in sys.modules if '.' not in m))"
    )
    environment = {**os.environ, "RECONCILE_API_KEY": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert heavy & set(done.stdout.split()) == set()
