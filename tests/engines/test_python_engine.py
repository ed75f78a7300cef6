"""The engine `python`: findings, what must be there, the exact command line, what it serves, and its last words."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hf_files import write_model
from reconciler.core.launch import Batching, Device, LaunchSpec, Role
from reconciler.core.types import Reason
from reconciler.engines import registry
from reconciler.engines.python import WORKER

ENGINE = registry.get("python")
GOOD = LaunchSpec("m", "python", entry="desk.embed:Embedder", role=Role.EMBEDDING)

FINDINGS = {
    "fine": (GOOD, ()),
    "no entry": (replace(GOOD, entry=None), (("entry",),)),
    "a name of Python's": (replace(GOOD, entry="calendar:Calendar"), (("entry",),)),
    "a command": (replace(GOOD, command=("x",)), (("command",),)),
    "a cache type": (replace(GOOD, cache_type="q8_0"), (("context", "cache_type"),)),
    "weights are allowed": (replace(GOOD, weights="/w"), ()),
    "state is allowed": (replace(GOOD, saves_state=True), ()),
    "flags of its own are for the class": (replace(GOOD, args=("--port", "1")), ()),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name: str) -> None:
    spec, paths = FINDINGS[name]
    assert tuple(finding.path for finding in ENGINE.check(spec)) == paths


def desk(folder: Path, text: str = "class Embedder:\n    def embed(self, texts): ...") -> LaunchSpec:
    """Return a launch whose module is there."""
    (folder / "desk").mkdir(exist_ok=True)
    (folder / "desk" / "embed.py").write_text(text)
    return replace(GOOD, cwd=str(folder))


def test_the_command_line_of_a_bare_launch(tmp_path: Path) -> None:
    spec = replace(desk(tmp_path), device=Device(threads=2))
    command = ENGINE.command(spec, 18001)
    words = "--entry desk.embed:Embedder --port 18001 --role embedding --name=m --threads 2"
    more = "--batch-max 32 --batch-wait 0 --"
    assert command.argv == (sys.executable, str(WORKER), *words.split(), *more.split())
    assert command.cwd == str(tmp_path)
    assert command.env["OMP_NUM_THREADS"] == "2"
    assert command.env["PYTHONUNBUFFERED"] == "1"
    assert command.env["HF_HUB_OFFLINE"] == "1"
    assert {"PYTHONHOME", "PYTHONPATH"} <= set(command.without)


def test_the_command_line_of_a_rich_launch(tmp_path: Path) -> None:
    environment(tmp_path / "venv")
    spec = replace(
        desk(tmp_path),
        python=str(tmp_path / "venv"),
        weights="/w/model",
        role=Role.CHAT,
        context_tokens=4096,
        device=Device(gpus=(), cpus=(0, 1), nice=5, threads=1),
        allocator_limit=1 << 30,
        batch=Batching(4, 0.005),
        args=("--language", "en", "${weights}"),
        env=(("PYTHONPATH", "lib"),),
        saves_state=True,
    )
    command = ENGINE.command(spec, 1, saves="/s/m")
    words = "--saves /s/m --entry desk.embed:Embedder --port 1 --role chat --name=m --threads 1 --batch-max 4"
    more = "--batch-wait 0.005 --weights /w/model --device cpu --memory-limit 1073741824 --context-tokens 4096 --"
    last = "--language en /w/model"
    python = str(tmp_path / "venv" / "bin" / "python")
    assert command.argv == (python, str(WORKER), *words.split(), *more.split(), *last.split())
    assert command.env["PYTHONPATH"] == "lib"
    assert (command.cpus, command.nice) == ((0, 1), 5)


def environment(folder: Path, version: str = "3.9.2") -> None:
    """Make what looks like a virtual environment."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    (folder / "lib" / "python3.9" / "site-packages").mkdir(parents=True)


def test_what_is_missing_is_said_before_anything_is_stopped(tmp_path: Path) -> None:
    spec = desk(tmp_path)
    (tmp_path / "empty").mkdir()
    environment(tmp_path / "old", "3.8.18")
    (tmp_path / "dangling" / "bin").mkdir(parents=True)
    (tmp_path / "dangling" / "bin" / "python").symlink_to(tmp_path / "gone")
    (tmp_path / "python2.7").write_text("#!/bin/true")
    (tmp_path / "python2.7").chmod(0o755)
    cases = {
        f"{tmp_path}/old has Python 3.8.18: 3.9 or newer is needed": replace(spec, python=f"{tmp_path}/old"),
        "no entry is given": replace(spec, entry=None),
        f"the working directory {tmp_path}/gone does not exist": replace(spec, cwd=f"{tmp_path}/gone"),
        (
            f"{tmp_path}/empty is no virtual environment: it has no bin/python "
            f"(make one: python3 -m venv {tmp_path}/empty)"
        ): replace(spec, python=f"{tmp_path}/empty"),
        f"{tmp_path}/dangling/bin/python leads to {tmp_path}/gone, which is not there: make the environment anew": (
            replace(spec, python=f"{tmp_path}/dangling")
        ),
        f"{tmp_path} is no virtual environment: it has no bin/python": replace(spec, python=str(tmp_path)),
        f"{tmp_path}/python2.7 has Python 2.7: 3.9 or newer is needed": replace(
            spec, python=f"{tmp_path}/python2.7"
        ),
        f"{tmp_path}/desk/embed.py has no class Embeder": replace(spec, entry="desk.embed:Embeder"),
        f"the weights {tmp_path}/no do not exist": replace(spec, weights=f"{tmp_path}/no"),
    }
    for message, one in cases.items():
        found = ENGINE.preflight(one)
        assert (found.reason, found.message) == (Reason.NOT_STARTABLE, message)


@pytest.mark.parametrize(
    "text",
    [
        "class Embedder: ...",
        "from .x import Embedder",
        "from .x import *",
        "def __getattr__(name): ...",
        "import x\nglobals()['Embed' + 'der'] = x",
    ],
)
def test_a_class_that_may_be_there_is_not_refused(tmp_path: Path, text: str) -> None:
    assert ENGINE.preflight(desk(tmp_path, text)).reason is None


def test_a_file_that_cannot_be_read_is_not_started_unless_its_interpreter_may_know_more(
    tmp_path: Path,
) -> None:
    environment(tmp_path / "newer", "3.99.0")
    spec = desk(tmp_path, "import x\n\nclass Embedder\n")
    found = ENGINE.preflight(spec)
    assert found.reason is Reason.NOT_STARTABLE
    assert found.message == f"{tmp_path}/desk/embed.py is no Python: line 3: expected ':'"
    assert ENGINE.preflight(replace(spec, python=str(tmp_path / "newer"))).reason is None


LACKING = {
    "a class without it": ("class Embedder:\n    def embet(self, texts): ...", True),
    "with infer": ("class Embedder:\n    def infer(self, payload): ...", False),
    "asynchronous": ("class Embedder(object):\n    async def embed(self, texts): ...", False),
    "assigned": ("class Embedder:\n    embed = print", False),
    "on a condition": ("class Embedder:\n    if 1:\n        def embed(self, texts): ...", False),
    "given later": ("class Embedder: ...\nEmbedder.embed = print", False),
    "inherited": ("class Embedder(Base): ...", False),
    "decorated": ("@served\nclass Embedder: ...", False),
    "in another way": ("class Embedder:\n    def __getattr__(self, name): ...", False),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_method_that_is_not_there_is_noted(tmp_path: Path, name: str) -> None:
    text, lacks = LACKING[name]
    note = f"class Embedder in {tmp_path}/desk/embed.py seems to have no method embed, which role embedding needs"
    found = ENGINE.preflight(desk(tmp_path, text))
    assert (found.reason, found.notes) == (None, (note,) if lacks else ())


def test_the_file_of_the_class_is_what_a_user_edits(tmp_path: Path) -> None:
    assert ENGINE.sources(desk(tmp_path)) == (str(tmp_path / "desk" / "embed.py"),)
    assert ENGINE.sources(replace(GOOD, cwd=str(tmp_path / "desk"))) == ()


def test_a_size_is_for_the_manifest_to_state(tmp_path: Path) -> None:
    found = ENGINE.preflight(desk(tmp_path))
    assert (found.steady, found.reason, found.notes) == (None, None, ())
    assert found.message == "nobody can know what a class of yours takes: give memory.steady"
    write_model(tmp_path / "weights")
    weighty = ENGINE.preflight(replace(desk(tmp_path), weights=str(tmp_path / "weights")))
    assert weighty.reason is None
    assert weighty.message.startswith("its weights are ")
    assert weighty.message.endswith(": give memory.steady")


def test_a_module_that_cannot_be_found_is_noted_and_one_of_the_environment_is_not(tmp_path: Path) -> None:
    environment(tmp_path / "venv")
    spec = replace(GOOD, cwd=str(tmp_path), python=str(tmp_path / "venv"))
    [note] = ENGINE.preflight(spec).notes
    assert note == f"desk.embed is neither in {tmp_path} nor among the packages of its interpreter"
    package = tmp_path / "venv" / "lib" / "python3.9" / "site-packages" / "desk" / "embed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class Embedder:\n    def infer(self, payload): ...")
    assert ENGINE.preflight(spec).notes == ()
    elsewhere = replace(GOOD, cwd=str(tmp_path), env=(("PYTHONPATH", f"x{os.pathsep}{package.parents[1]}"),))
    assert ENGINE.preflight(elsewhere).notes == ()


def test_what_was_measured_belongs_to_the_code_and_its_interpreter(tmp_path: Path) -> None:
    environment(tmp_path / "old")
    environment(tmp_path / "new", "3.13.1")
    spec = desk(tmp_path)
    builds = [ENGINE.preflight(replace(spec, python=str(tmp_path / name))).build for name in ("old", "new")]
    assert [build.split()[:2] for build in builds] == [["python", "3.9.2"], ["python", "3.13.1"]]
    os.utime(tmp_path / "desk" / "embed.py", (1, 1))
    assert ENGINE.preflight(replace(spec, python=str(tmp_path / "old"))).build != builds[0]
    assert ENGINE.version(replace(spec, python=str(tmp_path / "new"))) == "3.13.1"
    assert ENGINE.version(spec) == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("role", Role)
def test_each_role_has_its_path(role: Role) -> None:
    served = ENGINE.serves(replace(GOOD, role=role))
    assert served is not None
    assert "/infer" in served
    assert len(served) == 2


def test_how_many_requests_make_sense_at_once() -> None:
    assert ENGINE.parallel(replace(GOOD, batch=Batching(8))) == 16
    assert ENGINE.parallel(replace(GOOD, role=Role.TTS)) == 2
    assert ENGINE.parallel(replace(GOOD, role=Role.CHAT, slots=4)) == 5


def test_no_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "secret")
    assert ENGINE.api_key(replace(GOOD, args=("--api-key", "k"))) is None


LAST_WORDS = {
    "entry": ("Traceback: MemoryError\nworker: entry: it has no class X\natexit", 1, "it has no class X"),
    "construct": (
        "worker: failed: constructing its class failed: a:B: KeyError: 'x'",
        1,
        "constructing its class failed: a:B: KeyError: 'x'",
    ),
    "a known reason": (
        "torch.cuda.OutOfMemoryError: CUDA out of memory.\nworker: failed: a:B: OutOfMemoryError: CUDA",
        1,
        "the GPU has not enough memory: lower the context, or give the model another device",
    ),
    "killed": (
        "worker: a:B serves chat on port 1",
        -9,
        "it was killed (KILL), possibly because the machine *",
    ),
    "of a call before": (
        "worker: a:B serves chat on port 1\nMemoryError: x\nworker: that call failed, the worker goes on\nmore",
        -11,
        "it crashed (segmentation fault)",
    ),
    "no Python": (
        "",
        0,
        "its interpreter ended with status 0 before the worker began, is it Python 3.9 or newer?",
    ),
    "a broken Python": (
        "ld.so\n",
        127,
        "its interpreter ended with status 127 before the worker began, is it Python 3.9 or newer? It said: ld.so",
    ),
    "ended itself": (
        "worker: loads a:B with Python 3.11.2",
        0,
        "its class ended the process with status 0 (os._exit), or something it calls did",
    ),
    "nothing known": ("worker: a:B serves chat on port 1", 3, None),
}


@pytest.mark.parametrize("name", LAST_WORDS)
def test_its_last_words(name: str) -> None:
    log, status, expected = LAST_WORDS[name]
    found = ENGINE.explain(log, status)
    if expected is not None and expected.endswith("*"):
        assert found is not None
        assert found.startswith(expected[:-1])
    else:
        assert found == expected


def test_a_saved_state_depends_on_what_the_class_was_made_with() -> None:
    saver = ENGINE.saver(GOOD)
    assert saver is not None
    assert saver.refuses(GOOD) is None
    setups = {
        saver.setup(spec)
        for spec in (
            GOOD,
            replace(GOOD, args=("x",)),
            replace(GOOD, entry="a:B"),
            replace(GOOD, env=(("A", "s"),)),
        )
    }
    assert len(setups) == 4
    assert saver.setup(GOOD) == saver.setup(replace(GOOD, batch=Batching(4)))
