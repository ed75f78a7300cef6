"""A worker from its first moment to its last: loading, what keeps it from serving, signals, a death."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from reconciler.engines import registry
from reconciler.engines.python import WORKER
from reconciler.worker.entry import check_state
from reconciler.worker.errors import EntryError
from support import wait_for
from worker_process import PYTHON, SOON, Worker, worker

ECHO = """
import os
class Model:
    def infer(self, payload):
        if payload == "die":
            os._exit(3)
        return payload
    def close(self):
        open("closed", "w").close()
"""
GATED = """
import os, time
class Model:
    def __init__(self):
        while not os.path.exists("go"):
            time.sleep(0.005)
    def infer(self, payload):
        return payload
"""
SLOW = """
import time
class Model:
    def infer(self, payload):
        open("begun", "w").close()
        time.sleep(payload)
        return "done"
"""


def test_it_says_that_it_loads_from_the_very_start(tmp_path: Path) -> None:
    with worker(tmp_path, GATED, "chat", ready=False) as running:
        assert wait_for(running.health, SOON, "an answer") == "loading"
        answer = running.post("/infer", 1)
        assert answer.status_code == 503
        assert running.client.get("/health").status_code == 503
        assert "constructed" in answer.json()["error"]["message"]
        (tmp_path / "go").touch()
        wait_for(lambda: running.health() == "ok", SOON, "a worker that serves")
        assert running.post("/infer", 1).json() == 1


def test_a_stop_while_it_loads_ends_it_at_once(tmp_path: Path) -> None:
    with worker(tmp_path, GATED, "chat", ready=False) as running:
        wait_for(running.health, SOON, "an answer")
        running.signal(signal.SIGTERM)
        assert running.wait_end() == -signal.SIGTERM


FAILURES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "no method": (
        "class Model: pass",
        (),
        (
            "Model in {folder}/model.py has no method embed, which role embedding needs: "
            "embed(self, texts) -> one vector for each"
        ),
    ),
    "no class": ("Modell = 1", (), "{folder}/model.py has no class Model"),
    "no class but a function": (
        "def Model(): pass",
        (),
        "Model in {folder}/model.py is no class but a function",
    ),
    "no module": (
        "class Model: pass",
        ("--entry", "a.b:Model"),
        "there is no module a.b in {folder}, nor in the packages of {python}",
    ),
    "a name of Python's": (
        "class Model: pass",
        ("--entry", "json.x:Model"),
        "json is a module that Python itself brings: give yours another name than json.py",
    ),
    "asks for what there is not": (
        "class Model:\n    def __init__(self, path): pass\n    def embed(self, texts): pass",
        (),
        (
            "Model.__init__ asks for path, which is not among weights, device, threads, role, name, args, "
            "memory_limit, context_tokens, batch_max: give it a default"
        ),
    ),
    "asks for weights": (
        "class Model:\n    def __init__(self, weights): pass\n    def embed(self, texts): pass",
        (),
        "Model.__init__ asks for weights, and the manifest states none",
    ),
    "raises": (
        "class Model:\n    def __init__(self): raise OSError('no\\nsuch file')\n    def embed(self, texts): pass",
        (),
        "constructing its class failed: model:Model: OSError: no such file",
    ),
    "does not parse": ("class Model", (), "importing its module failed: model:Model: SyntaxError: *"),
    "ends itself": (
        "import sys\nsys.exit(0)",
        (),
        "importing its module failed: model:Model: SystemExit: 0",
    ),
    "saves what it cannot read": (
        "class Model:\n    def embed(self, texts): pass\n    def save_state(self, folder): pass",
        ("--saves", "/s"),
        "Model has save_state and no load_state: with `state.save` it needs both, or neither",
    ),
    "makes something else": (
        "class Model:\n    def __new__(cls): return 3\n    def embed(self, texts): pass",
        (),
        "Model() makes a int: its __new__ has to return a Model",
    ),
    "a method that tells nothing": (
        "class Model:\n    embed = staticmethod(map)",
        (),
        "Model.embed does not tell its parameters: write it with `def`",
    ),
    "a look at it raises": (
        "class Model:\n    def embed(self, texts): pass\n    def __getattr__(self, name): raise OSError(name)",
        (),
        "constructing its class failed: model:Model: OSError: *",
    ),
    "says very much": (
        "raise ValueError('x' * 1_000_000)",
        (),
        "importing its module failed: model:Model: ValueError: xxx*",
    ),
    "a package that is missing": (
        "import no_such_package_x",
        (),
        (
            "the Python package no_such_package_x is not installed in its environment "
            "(`python:` names the environment)"
        ),
    ),
    "out of memory": (
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')",
        (),
        "the GPU has not enough memory: lower the context, or give the model another device",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_keeps_it_from_serving_is_said_in_one_sentence(tmp_path: Path, name: str) -> None:
    text, options, sentence = FAILURES[name]
    with worker(tmp_path, text, "embedding", *options, ready=False) as running:
        assert running.wait_end() == 1
        explained = registry.get("python").explain(running.text(), 1)
    expected = sentence.format(folder=tmp_path, python=PYTHON)
    assert explained is not None
    assert explained == expected or (expected.endswith("*") and explained.startswith(expected[:-1]))


def test_a_class_made_of_one_that_tells_no_parameters_is_constructed_without(tmp_path: Path) -> None:
    text = "class Model(dict):\n    def infer(self, payload): return len(self)"
    with worker(tmp_path, text, "chat", "--saves", str(tmp_path)) as running:
        assert running.post("/infer", 1).json() == 0


def test_a_class_that_only_saves_is_served_where_nothing_is_to_be_saved(tmp_path: Path) -> None:
    check_state(type("Model", (), {"save_state": print}), None)
    check_state(type("Model", (), {"save_state": print, "load_state": print}), "/s")
    with pytest.raises(EntryError, match="has load_state and no save_state"):
        check_state(type("Model", (), {"load_state": print}), "/s")


def test_what_starts_it_can_be_read_by_any_python() -> None:
    """Python 2 has no annotations and no f-strings; it has to get as far as to say that it is too old."""
    text = WORKER.read_text()
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(node, (ast.JoinedStr, ast.AnnAssign))
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert not node.args.kwonlyargs
    assert text.isascii()


def test_it_ends_without_taking_down_what_libraries_left_but_runs_what_they_registered(
    tmp_path: Path,
) -> None:
    text = """
    import atexit
    class Slow:
        def __del__(self):
            open("taken down", "w").close()
    kept = Slow()
    atexit.register(lambda: open("registered", "w").close())
    class Model:
        def infer(self, payload):
            return payload
    """
    with worker(tmp_path, text, "chat") as running:
        running.signal(signal.SIGTERM)
        assert running.wait_end() == 0
    assert (tmp_path / "registered").exists()
    assert not (tmp_path / "taken down").exists()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with worker(tmp_path, ECHO, "chat") as first:
        with worker(tmp_path, ECHO, "chat", "--port", str(first.port), ready=False) as second:
            assert second.wait_end() == 1
            explained = registry.get("python").explain(second.text(), 1)
        assert explained == f"its port {first.port} cannot be opened: Address already in use"
        assert first.health() == "ok"


def test_idle_it_ends_at_once_and_closes_what_the_class_has_open(tmp_path: Path) -> None:
    with worker(tmp_path, ECHO, "chat") as running:
        assert running.post("/infer", 1).json() == 1
        began = time.monotonic()
        running.signal(signal.SIGTERM)
        assert running.wait_end() == 0
        # Idle it takes 0.05 s; below its grace of 2 s it was not cut, however busy the machine is.
        assert time.monotonic() - began < 1.5
    assert (tmp_path / "closed").exists()


def test_an_event_loop_of_the_class_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    text = """
    import asyncio, signal
    class Model:
        def infer(self, payload):
            return asyncio.run(self.work())
        async def work(self):
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
            return signal.set_wakeup_fd(-1) >= 0
    """
    with worker(tmp_path, text, "chat") as running:
        assert running.post("/infer", 1).json() is True
        running.signal(signal.SIGTERM)
        assert running.wait_end() == 0


def infer(running: Worker, payload: object) -> "Answer":
    """Ask in a thread; return once the class works on it."""
    asked = Answer(running, payload)
    asked.start()
    wait_for(lambda: running.stats()["active"] == 1, SOON, "the request to be there")
    return asked


class Answer(threading.Thread):
    """One request on its way."""

    def __init__(self, running: Worker, payload: object) -> None:
        super().__init__(daemon=True)
        self.url, self.payload = f"http://127.0.0.1:{running.port}/infer", payload
        self.answer: httpx.Response | None = None

    def run(self) -> None:
        """Ask; None = it was cut."""
        try:
            self.answer = httpx.post(self.url, json=self.payload, trust_env=False, verify=False, timeout=SOON)
        except httpx.TransportError:
            self.answer = None


def test_what_is_nearly_done_is_answered_before_it_ends(tmp_path: Path) -> None:
    with worker(tmp_path, SLOW, "chat") as running:
        asked = infer(running, 0.3)
        wait_for((tmp_path / "begun").exists, SOON, "the call")
        running.signal(signal.SIGTERM)
        wait_for(lambda: running.health() in ("stopping", None), SOON, "a worker that says that it stops")
        assert running.wait_end() == 0
        asked.join(SOON)
        assert asked.answer is not None
        assert asked.answer.json() == "done"


@pytest.mark.parametrize("signals", [1, 2])
def test_what_takes_long_is_cut(tmp_path: Path, signals: int) -> None:
    with worker(tmp_path, SLOW, "chat") as running:
        asked = infer(running, 100)
        wait_for((tmp_path / "begun").exists, SOON, "the call")
        for _ in range(signals):
            running.signal(signal.SIGTERM)
            wait_for(lambda: running.health() in ("stopping", None), SOON, "a worker that says that it stops")
        assert running.wait_end() == 128 + signal.SIGTERM
        asked.join(SOON)
        assert asked.answer is None


def test_it_outlives_its_parent(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(ECHO)
    with worker(tmp_path, ECHO, "chat") as other:
        port = other.port
    words = ["--entry", "model:Model", "--port", str(port), "--role", "chat", "--name", "m"]
    start = (
        "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=2, start_new_session=True).pid)"
    )
    command = [sys.executable, "-c", start, sys.executable, "-S", str(WORKER), *words]
    with (tmp_path / "log").open("wb") as log:
        pid = int(
            subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, check=True).stdout
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _ok(url), SOON, "the orphan to serve")
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not _ok(url), SOON, "its end")


def _ok(url: str) -> bool:
    try:
        return httpx.get(url + "/health", trust_env=False, verify=False).status_code == 200
    except httpx.TransportError:
        return False


def test_names_of_ours_and_of_the_library_hide_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("MINE = 'server'")
    (tmp_path / "queue.py").write_text("raise RuntimeError('hides a module that Python needs')")
    (tmp_path / "reconciler").mkdir()
    (tmp_path / "reconciler" / "__init__.py").write_text("MINE = 'reconciler'")
    text = """
    import queue, reconciler, server
    class Model:
        def infer(self, payload):
            return [server.MINE, reconciler.MINE, hasattr(queue, "Queue")]
    """
    with worker(tmp_path, text, "chat") as running:
        assert running.post("/infer", 1).json() == ["server", "reconciler", True]


def test_processes_of_the_class_do_not_become_workers(tmp_path: Path) -> None:
    text = """
    import multiprocessing
    def square(n):
        return n * n
    class Model:
        def infer(self, payload):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                return pool.map(square, payload)
    """
    with worker(tmp_path, text, "chat") as running:
        assert running.post("/infer", [1, 2, 3]).json() == [1, 4, 9]


def test_nothing_of_ours_is_there(tmp_path: Path) -> None:
    text = """
    import sys
    class Model:
        def infer(self, payload):
            try:
                import reconciler
            except ModuleNotFoundError:
                return sorted(name for name in sys.modules if "reconciler" in name and "." not in name)
    """
    with worker(tmp_path, text, "chat") as running:
        assert running.post("/infer", 1).json() == ["_reconciler_worker"]


@pytest.mark.parametrize("file", sorted(WORKER.parent.glob("*.py")), ids=lambda file: file.name)
def test_it_is_written_for_python_3_9(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module is not None
            assert node.module.split(".")[0] in sys.stdlib_module_names | {"__future__"}


def older_and_newer() -> list[str]:
    """Return other interpreters of this machine, the oldest and the newest that the worker is for."""
    places = [*os.get_exec_path(), *map(str, sorted(Path.home().glob(".pyenv/versions/*/bin")))]
    found = {}
    for minor in range(9, 20):
        for place in places:
            path = Path(place) / f"python3.{minor}"
            if path.is_file() and "shims" not in place and minor != sys.version_info.minor:
                found[minor] = str(path)
    return [found[n] for n in sorted(found)][:: max(1, len(found) - 1)]


@pytest.mark.parametrize(
    "python", older_and_newer() or [pytest.param("", marks=pytest.mark.skip("no other Python"))]
)
def test_it_runs_under_other_pythons(tmp_path: Path, python: str) -> None:
    text = """
    import sys
    class Model:
        async def embed(self, texts):
            return [[float(len(t))] for t in texts]
        def infer(self, payload):
            return list(sys.version_info[:2])
    """
    with worker(tmp_path, text, "embedding", python=python) as running:
        answer = running.post("/v1/embeddings", {"input": ["abc"]})
        assert answer.json()["data"][0]["embedding"] == [3.0]
        assert running.post("/infer", 0).json() == [3, int(Path(python).name.partition(".")[2])]
        running.signal(signal.SIGTERM)
        assert running.wait_end() == 0


def test_requests_that_are_no_http_end_their_connection_only(tmp_path: Path) -> None:
    cases = {
        b"POST /infer HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd": b"400",
        b"POST /infer HTTP/1.1\r\nContent-Length: -1\r\n\r\n": b"400",
        b"POST /infer HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n": b"413",
        b"POST /infer HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n": b"400",
        b"POST /infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n": b"400",
        b"POST /infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": b"400",
        b"POST /infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n": b"400",
        b"PUT /infer HTTP/1.1\r\nConnection: close\r\n\r\n": b"405",
        b"GET /nothing HTTP/1.0\r\n\r\n": b"404",
        b"GET http://x/health HTTP/1.1\r\n\r\n": b"400",
        b"GET /health HTTP/1.1\r\nA : b\r\n\r\n": b"400",
        b"GET /health HTTP/1.1\r\nA: b\r\n folded\r\n\r\n": b"400",
        b"GET /health HTTP/1.1\nA: b\n\n": b"400",
        b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n": b"431",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n": b"431",
        b"\x16\x03\x01\x00\r\n\r\n": b"400",
    }
    with worker(tmp_path, ECHO, "chat") as running:
        for sent, status in cases.items():
            with socket.create_connection(("127.0.0.1", running.port), timeout=SOON) as connection:
                connection.sendall(sent)
                answer = b""
                while part := connection.recv(4096):
                    answer += part
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.split(b" ")[1:2] == [status], (sent, answer)
            assert json.loads(body)["error"]["message"]
        assert running.post("/infer", "fine").json() == "fine"


def test_a_death_in_a_call_is_its_own(tmp_path: Path) -> None:
    with worker(tmp_path, ECHO, "chat") as running:
        with pytest.raises(httpx.TransportError):
            running.post("/infer", "die")
        assert running.wait_end() == 3


def test_a_client_that_waits_to_be_told_may_send_its_body(tmp_path: Path) -> None:
    with (
        worker(tmp_path, ECHO, "chat") as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=SOON) as connection,
    ):
        connection.sendall(b"POST /infer HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"123")
        assert connection.recv(1000).endswith(b"\r\n\r\n123")
