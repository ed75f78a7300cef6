"""Case H2: keys and secrets are in nothing that the manager shows, writes or passes on."""

import base64
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from manager import CHAT, SOON, Manager, environment
from support import get_json, wait_for

pytestmark = pytest.mark.program

#: What only the model's own process may know.
OWN = ("CANARY-argv-1", "CANARY-argv-2", "CANARY-env-3", "CANARY-env-4")
#: What no process but the manager may know.
CLIENTS = ("CANARY-client", "CANARY-reader", "CANARY-variable", "CANARY-wrong", "CANARY-password")
CONTROL = ("status", "plan", "world", "budget", "leases", "openapi.json", "events", "timeline", "whoami")


def words(manager: Manager) -> list[str]:
    """Return what was found of the secrets in the manager's output and in all it keeps."""
    written = [manager.output, *files(manager.state_dir)]
    return [str(file) for file in written if b"CANARY" in file.read_bytes()]


def pages(manager: Manager, *models: str) -> list[httpx.Response]:
    """Return all that is shown of single models."""
    paths = [f"/api/v1/models/{name}{tail}" for name in models for tail in ("", "/log", "/advice")]
    answers = [manager.client.get(path) for path in paths]
    assert [answer.status_code for answer in answers] == [200] * len(paths)
    return answers


def auth(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def provoke(manager: Manager, key: dict[str, str]) -> list[httpx.Response]:
    """Send what may be answered with an error, in every way a key can be sent; return the answers."""
    client, basic = manager.client, base64.b64encode(b"user:CANARY-password").decode()
    wrong = [auth("CANARY-wrong"), {"x-api-key": "CANARY-wrong"}, {"authorization": f"Basic {basic}"}]
    answers = [client.get("/api/v1/status", headers=headers) for headers in wrong]
    answers.append(client.get("/v1/models?key=CANARY-wrong"))
    answers.append(client.get("/api/v1/status", headers={**key, "host": "CANARY-wrong.example"}))
    answers.append(client.post(CHAT, json={"model": "chat"}, headers=auth("CANARY-reader")))
    answers.append(client.post("/api/v1/stop", headers=auth("CANARY-reader")))
    answers.append(client.post(CHAT, content=b"{", headers=key))
    answers.append(client.post(CHAT, json={"model": "nobody"}, headers=key))
    answers.append(client.post(CHAT, json={"model": "broken"}, headers=key))
    return answers


def test_no_secret_is_shown_kept_or_passed_on(manager: Manager) -> None:
    argv = ("--hf-key", OWN[0], f"--hf-token={OWN[1]}")
    env = {"LLAMA_API_KEY": OWN[2], "HF_TOKEN": OWN[3]}
    keys = "CANARY-client name=desk\nCANARY-reader name=eye scopes=read\nCANARY-variable\n"
    manager.env = {**manager.env, "CLIENT_KEYS": keys}
    models = {
        "chat": manager.fake("chat", *argv, env=env),
        "broken": manager.fake("broken", *argv, "--exit", "3", env=env),
    }
    manager.write(models, gateway={"api_keys": {"env": "CLIENT_KEYS"}})
    manager.start()
    key = auth("CANARY-client")
    manager.client.headers.update(key)
    shown = [manager.client.post(CHAT, json={"model": "chat"})]
    assert shown[0].status_code == 200
    pid, port = manager.wait_ready("chat")[0], manager.port_of("chat")

    # The engine has its own secrets, and nobody else's.
    there = json.dumps(get_json(f"http://127.0.0.1:{port}/stats"))
    seen = "\n".join(environment(pid)) + there
    assert all(secret in seen for secret in OWN[2:])
    assert [secret for secret in CLIENTS if secret in seen] == []

    manager.client.headers.pop("authorization")
    shown += provoke(manager, key)
    shown += [manager.client.get(f"/api/v1/{name}", headers=key) for name in CONTROL]
    shown += [manager.client.get(path, headers=key) for path in ("/metrics", "/v1/models", "/v1/models/chat")]

    # A crash, and a manifest that is refused, say why without saying what.
    manager.client.headers.update(key)
    shown += pages(manager, "chat", "broken")
    assert shown[-6].json()["launch"]["argv"].count("***") == 1
    assert "--hf-token=***" in shown[-6].json()["launch"]["argv"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: manager.model("chat")["state"] != "ready", SOON, "the end of chat to be seen")
    (manager.manifests / "keys.txt").write_text("CANARY-client name=desk\nCANARY-client\nCANARY-reader x\n")
    manager.write(models, gateway={"api_keys": {"file": "keys.txt"}})
    wait_for(lambda: manager.status()["manifest"]["refused"], SOON, "the manifest to be refused")
    shown.append(manager.client.get("/api/v1/status"))
    said = manager.cli("validate", str(manager.manifests))
    assert said.returncode != 0

    text = "\n".join(answer.text + repr(answer.headers) for answer in shown) + said.stdout + said.stderr
    assert "CANARY" not in text.replace("CANARY-wrong.example", "")
    assert manager.stop() == 0
    assert words(manager) == []
    assert [oct(f.stat().st_mode & 0o077) for f in files(manager.state_dir) if f.stat().st_mode & 0o077] == []


def test_an_engine_that_logs_its_secrets_does_not_have_them_shown(manager: Manager) -> None:
    argv = ("--hf-key", OWN[0], f"--hf-token={OWN[1]}", "--exit", "3", "--last-words")
    env = {"LLAMA_API_KEY": OWN[2], "HF_TOKEN": OWN[3]}
    lines = {
        "flag": f"unknown option: --hf-key {OWN[0]} --hf-token={OWN[1]}",
        "value": "no such model: $LLAMA_API_KEY/$HF_TOKEN",
        "header": '{"authorization": "Bearer CANARY-other", "n": 1} Authorization: Bearer CANARY-other',
        "dying": f"Namespace(hf_key='{OWN[0]}') $HF_TOKEN",
    }
    later = {"dying": ("--after", "0.3")}
    models = {
        name: manager.fake(name, *argv, line, *later.get(name, ()), env=env) for name, line in lines.items()
    }
    manager.write(models)
    manager.start()
    shown = [manager.client.post(CHAT, json={"model": name}) for name in lines if name != "dying"]
    assert [answer.json()["error"]["code"] for answer in shown] == ["load_failed"] * 3
    assert all("its last line: " in answer.text and "***" in answer.text for answer in shown)
    shown.append(manager.client.post(CHAT, json={"model": "dying"}))
    wait_for(lambda: manager.events("crashed", "dying"), SOON, "the death of the model to be seen")
    shown += [manager.client.get(f"/api/v1/{name}") for name in CONTROL]
    shown += pages(manager, *lines)
    verbs = [("status",), ("status", "--json"), ("top", "--once"), *(("explain", name) for name in lines)]
    said = [manager.cli(*verb) for verb in verbs] + [manager.cli("--dry-run", str(manager.manifests))]
    text = "\n".join([answer.text for answer in shown] + [run.stdout + run.stderr for run in said])
    assert "its last line: unknown option: --hf-key ***" in text
    assert "CANARY" not in text
    assert manager.stop() == 0
    raw = [file for file in words(manager) if Path(file).parent == manager.state_dir / "logs"]
    assert len(raw) == len(lines)  # the engine's own log is the engine's
    assert words(manager) == raw


def test_an_engine_with_a_key_of_its_own_is_sent_it_in_place_of_the_clients(manager: Manager) -> None:
    (manager.root / "keys").write_text("CANARY-client\n")
    manager.write(
        {"chat": manager.fake("chat", "--api-key", OWN[0], health="/v1/models")},
        gateway={"api_keys": {"file": str(manager.root / "keys")}},
    )
    manager.start()
    manager.client.headers.update(auth("CANARY-client"))
    shown = [manager.client.post(CHAT, json={"model": "chat"})]
    shown.append(manager.client.get("/upstream/chat/v1/models"))
    assert [answer.status_code for answer in shown] == [200, 200]
    shown += [manager.client.get(f"/api/v1/{name}") for name in CONTROL]
    assert "CANARY" not in "\n".join(answer.text + repr(answer.headers) for answer in shown)
    assert manager.stop() == 0
    assert words(manager) == []


def files(directory: Path) -> list[Path]:
    """Return the files below a directory, sorted."""
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]
