"""What the engine is started with: arguments, folder, environment; and wrappers around servers."""

import re
import sys
from functools import partial
from typing import Any

import pytest

from manager import SOON, Manager, environment
from support import FAKE, free_port, get_json, healthy, wait_for
from tiny_gguf import write_llama

pytestmark = pytest.mark.program

EXPECTED = [
    *("--a", "two words", "--kw", '{"enable_thinking": false}', "--re", r"a\.b"),
    *("--hash", "x # y", "--empty", ""),
]


def echo(manager: Manager, model: str) -> dict[str, Any]:
    """Load a model and ask its server what it was started with."""
    assert manager.ask(model).status_code == 200
    answer = get_json(f"http://127.0.0.1:{manager.port_of(model)}/echo")
    assert isinstance(answer, dict)
    return answer


def test_arguments_arrive_as_they_are_written(manager: Manager) -> None:
    """The manager runs in `/`; everything relative is relative to the manifest."""
    here = manager.manifests
    program = here / "folder with blank" / "server é"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport runpy\nrunpy.run_path({FAKE[1]!r}, run_name='__main__')\n"
    )
    program.chmod(0o755)
    (here / "models").mkdir()
    write_llama(here / "models" / "Käse model.gguf")
    fake = " ".join(FAKE)
    port = "--port ${port}"
    manager.file.write_text(
        f"""apiVersion: reconciler/v1
machine: {{memory: 1000MiB, reserve: 0MiB, ports: {manager.ports[0]}-{manager.ports[-1]}}}
defaults: {{memory: {{steady: 40MiB}}}}
models:
  line:
    engine: command
    command: >-
      {fake} {port} --a 'two words' --kw '{{"enable_thinking": false}}' --re 'a\\.b' --hash 'x # y' --empty ''
  block:
    engine: command
    command: |
      {fake} {port} --a "two words" \\
        --kw "{{\\"enable_thinking\\": false}}"
        --re 'a\\.b'
        --hash 'x # y' --empty ""
  list:
    engine: command
    command: [{", ".join(FAKE)}, --port, "${{port}}", "$HOME", "~", "*.gguf", "a;b", --kw, '{{"a": "b c"}}', -n, "-1"]
  relative:
    engine: command
    command: ["./folder with blank/server é", --port, "${{port}}", -m, "./models/Käse model.gguf"]
    cwd: models
    weights: "models/Käse model.gguf"
    env: {{GREETING: "a=b c", EMPTY: ""}}
"""
    )
    # A manager that itself runs under the marks of another gives its models its own.
    manager.env = {"RECONCILER_OWNER": "somebody-else", "RECONCILER_LAUNCH": "theirs", "NOTIFY_SOCKET": "/x"}
    manager.start()
    assert echo(manager, "line")["argv"][3:] == EXPECTED
    assert echo(manager, "block")["argv"][3:] == EXPECTED
    assert echo(manager, "list")["argv"][3:] == [
        *("$HOME", "~", "*.gguf", "a;b", "--kw", '{"a": "b c"}', "-n", "-1")
    ]
    relative = echo(manager, "relative")
    assert relative["argv"][3:] == ["-m", "./models/Käse model.gguf"]
    assert relative["cwd"] == str(here / "models")
    assert relative["env"] == "a=b c"
    line = echo(manager, "line")
    assert line["cwd"] == str(here)
    variables = environment(line["pid"])
    assert f"RECONCILER_OWNER={(manager.state_dir / 'owner').read_text()}" in variables
    assert not any("somebody-else" in v or v == "RECONCILER_LAUNCH=theirs" for v in variables)
    assert not any(v.startswith("NOTIFY_SOCKET=") for v in variables)


def gone(manager: Manager, model: str) -> bool:
    """Return whether no process of a model is left."""
    return not manager.processes(model)


def test_wrappers_are_tracked_whole_or_fail_and_leave_nothing(manager: Manager) -> None:
    wrong, right = free_port(), free_port()
    ports = {name: free_port() for name in ("bg", "daemon", "child", "exec")}

    def shell(name: str, script: str) -> dict[str, object]:
        server = f"{' '.join(FAKE)} --port {ports[name]} --tag {manager.tag(name)}"
        return {
            "engine": "command",
            "command": ["sh", "-c", script.replace("SERVER", server)],
            "port": ports[name],
            "memory": {"steady": "50MiB"},
        }

    manager.write(
        {
            "bg": shell("bg", "SERVER & exit 0"),
            "daemon": shell("daemon", "setsid SERVER </dev/null >/dev/null 2>&1 & exit 0"),
            "child": shell("child", "SERVER; exit $?"),
            "exec": shell("exec", "exec SERVER"),
            "astray": {
                "engine": "command",
                "command": [*FAKE, "--port", str(wrong), "--tag", manager.tag("astray")],
                "port": right,
                "memory": {"steady": "50MiB"},
                "timeouts": {"load": "1.3s"},
            },
        }
    )
    manager.start()
    for name in ("bg", "daemon"):
        answer = manager.ask(name)
        assert answer.status_code == 502, name
        message = answer.json()["error"]["message"]
        assert "exit code 0" in message
        assert "foreground" in message
        wait_for(partial(gone, manager, name), 5, f"nothing of {name} to be left")
        assert not healthy(ports[name])
        failed = manager.model(name)
        assert (failed["pid"], failed["failures"]) == (None, 1)
        assert "exit code 0" in failed["last_error"]
        assert failed["retry_in"] is not None
        assert len(manager.log("load", model=name)) == 1, "a restart loop"
    for name in ("child", "exec"):
        assert manager.ask(name).status_code == 200, name
        processes = manager.processes(name)
        assert manager.model(name)["pid"] in processes
        said = manager.cli("evict", name)
        assert said.returncode == 0, said.stderr
        wait_for(partial(gone, manager, name), SOON, f"the end of {name}")
        assert not healthy(ports[name])
    answer = manager.ask("astray")
    assert answer.status_code == 502
    assert re.search(rf"pid \d+ listens on {wrong}, manifest says {right}", answer.json()["error"]["message"])
    assert gone(manager, "astray")


def test_a_server_that_listens_on_ipv6_alone_is_reached_and_adopted(manager: Manager) -> None:
    manager.write({"six": manager.fake("six", "--host", "::1", "--v6only", residency="warm")})
    manager.start()
    [before] = manager.wait_ready("six")
    assert manager.ask("six").status_code == 200
    manager.kill()
    manager.start()
    assert manager.wait_ready("six") == [before]
    assert manager.ask("six").status_code == 200
