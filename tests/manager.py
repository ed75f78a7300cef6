"""A real `reconcile` process with directories and ports of its own, which leaves nothing running behind it."""

import fcntl
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

import httpx

from nursery import Nursery
from reconciler.store.paths import DATABASE
from small_machine import SmallMachine
from support import FAKE, free_port, get_json, wait_for

RECONCILE = Path(sys.executable).with_name("reconcile")
#: Deadline of everything that normally takes a fraction of a second, on a machine that is busy with other things.
SOON = 15.0
#: Ports of one manager, and of all managers of one process of tests.
PORTS, SLAB = 12, 120
CHAT = "/v1/chat/completions"
MIB = 1 << 20


def environment(pid: int) -> frozenset[str]:
    """Return the `NAME=value` strings a process was started with; empty if it is gone."""
    try:
        return frozenset(
            Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        )
    except OSError:
        return frozenset()


def command_line(pid: int) -> str:
    """Return a process's arguments, joined; empty for a zombie or one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def process_fields(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state and its parent on; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def process_state(pid: int) -> str | None:
    """Return the letter the kernel gives a process's state; None if there is no such process."""
    return next(iter(process_fields(pid)), None)


def running(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    return process_state(pid) not in (None, "Z", "X")


def pids() -> list[int]:
    """Return all pids of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


@cache
def _blocks() -> Iterator[int]:
    """Return the first ports of blocks, over and over, that no other process of tests uses.

    They are below those the system hands out by itself, and locked, which ends with this process. Where all are, any
    will do.
    """
    folder = Path(tempfile.gettempdir(), f"reconciler-test-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    firsts = [*range(20000, 32000, SLAB)]
    for first in random.sample(firsts, len(firsts)):
        handle = os.open(folder / str(first), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        else:
            return cycle(range(first, first + SLAB, PORTS))
    return cycle(range(20000, 32000, PORTS))


def port_block() -> range:
    """Return `PORTS` consecutive free ports; of those that this process was given before, the oldest come first."""
    while True:
        first = next(_blocks())
        try:
            for port in range(first, first + PORTS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return range(first, first + PORTS)


class Started(Protocol):
    """A program that was started, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...
    def send_signal(self, sig: int) -> None: ...


@dataclass
class Manager:
    """One manager on `root/manifests`, with `root/state` as its state directory unless told otherwise."""

    #: Before each look at the status while waiting: a look takes milliseconds of the processor on both sides.
    PAUSE: ClassVar[float] = 0.05

    root: Path
    state_dir: Path = field(default_factory=Path)
    gateway_port: int = field(default_factory=free_port)
    ports: range = field(default_factory=port_block)
    #: Added to the environment of the manager.
    env: Mapping[str, str] = field(default_factory=dict)
    #: Where it runs, with all it starts; None = on this machine as it is.
    inside: SmallMachine | None = None
    #: What forks it, which spares the imports; None = it is started as people do.
    nursery: Nursery | None = None
    process: Started | None = None

    def __post_init__(self) -> None:
        self.manifests = self.root / "manifests"
        if self.state_dir == Path():
            self.state_dir = self.root / "state"
        self.manifests.mkdir(parents=True, exist_ok=True)
        self.output = self.root / "manager.log"
        self.others: list[Started] = []
        self.client = httpx.Client(trust_env=False, timeout=30, base_url=self.url)

    # -- the manifest ---------------------------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        """The one file of the manifest."""
        return self.manifests / "models.yaml"

    def tag(self, model: str) -> str:
        """Return a word on the command line of this manager's `model` that is on no other's."""
        return f"{self.root}/process-of-{model}."

    def fake(
        self, model: str, *options: str, size: int = 50, port: int | None = None, **keys: object
    ) -> dict[str, object]:
        """Return the manifest entry of a fake engine of `size` MiB; `options` are its own, `keys` the manifest's."""
        number = "${port}" if port is None else str(port)
        command = [*FAKE, "--port", number, "--tag", self.tag(model), *options]
        entry: dict[str, object] = {
            "engine": "command",
            "command": command,
            "memory": {"steady": f"{size}MiB"},
        }
        if port is not None:
            entry["port"] = port
        return entry | keys

    def text(
        self,
        models: Mapping[str, Mapping[str, object]],
        memory: int = 1000,
        *,
        machine: Mapping[str, object] | None = None,
        **top: object,
    ) -> str:
        """Return a manifest, a model a line, whose models may hold `memory` MiB together; `machine` has its way."""
        ports = f"{self.ports[0]}-{self.ports[-1]}"
        machine = {"memory": f"{memory}MiB", "reserve": "0MiB", "ports": ports, **(machine or {})}
        lines = ["apiVersion: reconciler/v1", f"machine: {json.dumps(machine)}"]
        lines += [f"{key}: {json.dumps(value)}" for key, value in top.items()]
        lines += [
            "models:",
            *(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in models.items()),
        ]
        return "\n".join(lines) + "\n"

    def write(
        self,
        models: Mapping[str, Mapping[str, object]],
        memory: int = 1000,
        *,
        machine: Mapping[str, object] | None = None,
        **top: object,
    ) -> None:
        """Save a manifest as `text` makes it, in one step."""
        draft = self.root / "draft.yaml"
        draft.write_text(self.text(models, memory, machine=machine, **top))
        draft.replace(self.file)

    # -- the process ----------------------------------------------------------------------------------------------

    def command(self, *options: str) -> list[str]:
        """Return the command line that runs the loop."""
        return [str(RECONCILE), str(self.manifests), "--state-dir", str(self.state_dir), *options]

    def launch(self, *options: str) -> Started:
        """Start the program on this manifest; its working directory is `/`, and it is ended with the rest."""
        process: Started
        command, env = self.command(*options), {**os.environ, **self.env}
        # A fork would stay in the control group that it comes from.
        if self.nursery is not None and self.inside is None:
            process = self.nursery.start(command, env, self.output)
            self.others.append(process)
            return process
        with self.output.open("ab") as out:
            process = subprocess.Popen(
                command,
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=self.inside.enter if self.inside is not None else None,
            )
        self.others.append(process)
        return process

    def begin_to_serve(self, *options: str) -> None:
        """Start the manager on the port of its gateway; it may not answer yet when this returns."""
        self.process = self.launch("--listen", f"127.0.0.1:{self.gateway_port}", *options)

    def start(self, *options: str) -> Self:
        """Start the manager and return once it has published what it sees."""
        self.begin_to_serve(*options)
        wait_for(self.answers, SOON, "a manager that answers")
        return self

    def refuses_to_start(self, port: int | None = None) -> str:
        """Start the program, on another port of its gateway if told so; it must end with 1; return what it said."""
        before = len(self.output.read_text()) if self.output.exists() else 0
        listen = f"127.0.0.1:{self.gateway_port if port is None else port}"
        assert self.launch("--listen", listen).wait(SOON) == 1
        said = self.output.read_text()[before:]
        assert "Traceback" not in said, said
        return said

    def answers(self) -> bool:
        """Return whether the manager has turned once; fail if it has ended instead."""
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"the manager ended with {code}: {self.output.read_text()}"
        time.sleep(self.PAUSE)
        health = get_json(f"{self.url}/healthz", 5)
        return isinstance(health, dict) and health.get("status") == "ok"

    @property
    def pid(self) -> int:
        """The pid of the manager."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """End the manager as a crash would: SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(SOON)

    def stop(self, timeout: float = SOON) -> int:
        """Ask the manager to end and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def cli(
        self, *words: str, timeout: float = SOON, paths: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run `reconcile WORDS`, with this manifest and state directory if `paths`; return what it said."""
        command = (
            self.command(*words) if paths else [str(RECONCILE), *words, "--state-dir", str(self.state_dir)]
        )
        env = {**os.environ, **self.env}
        if self.nursery is not None:
            return self.nursery.run(command, env, timeout)
        return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        for process in self.others:
            if process.poll() is None:
                process.kill()
            process.wait(SOON)
        for pid in self.ours():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.ours(), SOON, "the end of everything this manager started")
        if error is not None:
            print(self.output.read_text() if self.output.exists() else "the manager said nothing")

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        answer = self.client.get("/api/v1/status")
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def model(self, name: str) -> dict[str, Any]:
        """Return one model of the status document."""
        found: dict[str, Any] = next(m for m in self.status()["models"] if m["name"] == name)
        return found

    def wait_model(self, name: str, timeout: float = SOON, **wanted: object) -> dict[str, Any]:
        """Wait until the model's status has these values; return it."""

        def look() -> dict[str, Any] | None:
            time.sleep(self.PAUSE)
            found = self.model(name)
            return found if all(found[key] == value for key, value in wanted.items()) else None

        found = wait_for(look, timeout, f"{name} with {wanted}")
        assert found is not None
        return found

    def condition(self, kind: str, model: str | None = None) -> dict[str, Any] | None:
        """Return a condition of a model, or of the manifest, while it is true."""
        conditions = (self.model(model) if model is not None else self.status())["conditions"]
        return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)

    def wait_condition(
        self, kind: str, model: str | None = None, timeout: float = SOON, **wanted: object
    ) -> dict[str, Any]:
        """Wait until a condition is true and has these values; return it."""

        def look() -> dict[str, Any] | None:
            time.sleep(self.PAUSE)
            found = self.condition(kind, model)
            return found if found and all(found[key] == value for key, value in wanted.items()) else None

        found = wait_for(look, timeout, f"{kind} of {model or 'the manifest'} with {wanted}")
        assert found is not None
        return found

    def wait_ready(self, *names: str, timeout: float = SOON) -> list[int]:
        """Wait until these models are ready; return their pids."""
        return [int(self.wait_model(name, timeout, state="ready")["pid"]) for name in names]

    def wait_calm(self, timeout: float = SOON) -> dict[str, Any]:
        """Wait until the plan is empty and nothing is in flight; return the status."""

        def look() -> dict[str, Any] | None:
            time.sleep(self.PAUSE)
            plan, status = self.client.get("/api/v1/plan").json(), self.status()
            return status if status["action"] is None and not plan["changes"] else None

        found = wait_for(look, timeout, "nothing left to do")
        assert found is not None
        return found

    def doing(self, doing: str, model: str) -> None:
        """Wait until the action in flight is this one."""

        def look() -> bool:
            action = self.status()["action"]
            return bool(action) and (action["doing"], action["model"]) == (doing, model)

        wait_for(look, SOON, f"{doing} {model}")

    def processes(self, model: str) -> list[int]:
        """Return the pids of the running processes of a model, whoever started them, from the process table."""
        return [pid for pid in pids() if self.tag(model) in command_line(pid)]

    def ours(self) -> list[int]:
        """Return the running processes that carry the mark of this state directory."""
        try:
            mark = f"RECONCILER_OWNER={(self.state_dir / 'owner').read_text().strip()}"
        except OSError:
            return []
        return [pid for pid in pids() if mark in environment(pid) and running(pid)]

    def children(self) -> dict[int, str]:
        """Return the manager's child processes with the letter of their state."""
        fields = {pid: process_fields(pid) for pid in pids()}
        return {pid: said[0] for pid, said in fields.items() if said and int(said[1]) == self.pid}

    def log(self, event: str | None = None, **wanted: object) -> list[dict[str, Any]]:
        """Return the manager's log lines, or those of one event that have these values."""
        lines = []
        for text in self.output.read_text().splitlines() if self.output.exists() else ():
            with suppress(ValueError):
                lines.append(json.loads(text))
        return [
            line
            for line in lines
            if (event is None or line.get("event") == event)
            and all(line.get(key) == value for key, value in wanted.items())
        ]

    def wait_log(self, event: str, timeout: float = SOON, **wanted: object) -> dict[str, Any]:
        """Wait for a log line and return it."""
        return wait_for(lambda: self.log(event, **wanted), timeout, f"the log line {event} {wanted}")[0]

    def steps(self) -> list[str]:
        """Return what was begun and finished, in order: `load alpha`, `loaded alpha`, `evict alpha` ..."""
        kinds = ("load", "loaded", "load failed", "evict", "evicted", "given up", "model died", "adopted")
        return [f"{line['event']} {line['model']}" for line in self.log() if line.get("event") in kinds]

    def events(self, kind: str, model: str | None = None) -> list[tuple[str, str]]:
        """Return reason and message of the events of one kind in the history, oldest first."""
        with closing(sqlite3.connect(f"file:{self.state_dir / DATABASE}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT model, reason, message FROM events WHERE kind = ? ORDER BY id", (kind,))
            return [(reason, message) for name, reason, message in rows if model in (None, name)]

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(self, model: str, timeout: float = 30, **more: object) -> httpx.Response:
        """Send one chat request and return the answer."""
        return self.client.post(CHAT, json=chat(model, **more), timeout=timeout)

    def port_of(self, model: str) -> int:
        """Return the port of a loaded model."""
        return int(self.model(model)["port"])


def chat(model: str, **more: object) -> dict[str, object]:
    """Return the body of a chat request."""
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **more}


class Background(threading.Thread):
    """Something done in a thread; `result` waits for it and raises what it raised."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None

    def run(self) -> None:
        """Do the work and keep what it raises."""
        try:
            self.work()
        except BaseException as error:  # raised again by whoever waits
            self.error = error

    def work(self) -> None:
        """Do the work."""
        raise NotImplementedError

    def finish(self, timeout: float = SOON) -> Self:
        """Wait for the end; raise what went wrong."""
        self.join(timeout)
        assert not self.is_alive(), f"not finished within {timeout:g} s"
        if self.error is not None:
            raise self.error
        return self


class Asking(Background):
    """One chat request on its way."""

    def __init__(self, manager: Manager, model: str, **more: object) -> None:
        super().__init__()
        self.manager, self.model, self.more = manager, model, more
        self.answer: httpx.Response | None = None
        self.seconds = 0.0
        self.start()

    def work(self) -> None:
        began = time.monotonic()
        with httpx.Client(trust_env=False, timeout=60, base_url=self.manager.url) as client:
            self.answer = client.post(CHAT, json=chat(self.model, **self.more))
        self.seconds = time.monotonic() - began

    def status(self, timeout: float = 30) -> int:
        """Wait for the answer and return its status."""
        self.finish(timeout)
        assert self.answer is not None
        return self.answer.status_code


class Streaming(Background):
    """An open stream: counts the events that arrive. `more` is what else its request says."""

    def __init__(self, url: str, model: str, **more: object) -> None:
        super().__init__()
        self.url, self.model, self.more = url, model, more
        self.events: list[dict[str, Any]] = []
        self.done = False
        self._client = httpx.Client(trust_env=False, timeout=60)
        self.start()
        wait_for(lambda: self.events or self.error, SOON, "the first event of a stream")

    def work(self) -> None:
        with (
            self._client as client,
            client.stream("POST", self.url + CHAT, json=chat(self.model, stream=True, **self.more)) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    self.done = True
                elif line.startswith("data: "):
                    self.events.append(json.loads(line.removeprefix("data: ")))

    def whole(self, timeout: float = 30) -> list[int]:
        """Wait for the end of a stream that must not have been cut; return the numbers of its events."""
        self.finish(timeout)
        assert self.done, "the stream ended early"
        return [event["n"] for event in self.events if "n" in event]


class Sampler(Background):
    """Looks into the process table every 20 ms, independently of the manager."""

    EVERY = 0.02

    def __init__(self, tags: Mapping[str, str]) -> None:
        super().__init__()
        self.tags = tags
        #: One entry a look: how many processes each of the models had; those with none are left out.
        self.seen: list[dict[str, int]] = []
        self._over = threading.Event()

    def work(self) -> None:
        while not self._over.wait(self.EVERY):
            lines = [command_line(pid) for pid in pids()]
            counts = {name: sum(tag in line for line in lines) for name, tag in self.tags.items()}
            self.seen.append({name: count for name, count in counts.items() if count})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.finish()

    def most(self, names: Iterable[str]) -> int:
        """Return the largest number of processes these models had together in one look."""
        wanted = list(names)
        return max((sum(look.get(name, 0) for name in wanted) for look in self.seen), default=0)

    def of(self, name: str) -> int:
        """Return in how many looks the model was there."""
        return sum(name in look for look in self.seen)
