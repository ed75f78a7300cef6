"""What the composition root says of itself."""

import errno
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from board_samples import applied
from reconciler.app import run, serving, with_listen
from reconciler.gateway.server import BindError
from reconciler.manifest.applied import ApiKey, Applied, Rule, Virtual, When


def test_the_line_at_the_start_names_what_clients_may_ask_for() -> None:
    models = ["chat", "coder", "embed", "flaky", "vision"]
    assert serving(applied()) == {"models": models}
    auto = Virtual("auto", (Rule(When(code=True), ("coder",)), Rule(When(), ("chat",))))
    assert serving(replace(applied(), virtual={"auto": auto})) == {
        "models": models,
        "virtual": ["auto (coder, chat)"],
    }


def asking(*keys: ApiKey) -> Applied:
    """Return a manifest that asks for one of these keys."""
    return replace(applied(), gateway=replace(applied().gateway, api_keys=keys))


OPEN, KEYED = asking(), asking(ApiKey("a-long-key", "desk"))


@pytest.mark.parametrize(
    ("manifest", "listen", "address"),
    [
        (OPEN, "127.0.0.1:8090", ("127.0.0.1", 8090)),
        (OPEN, "[::1]:0", ("::1", 0)),
        (KEYED, "0.0.0.0:8080", ("0.0.0.0", 8080)),
    ],
)
def test_the_command_line_may_name_another_address(
    manifest: Applied, listen: str, address: tuple[str, int]
) -> None:
    gateway = with_listen(manifest, listen).gateway
    assert (gateway.host, gateway.port) == address


@pytest.mark.parametrize(("manifest", "listen"), [(OPEN, "0.0.0.0:8080"), (KEYED, "8080")])
def test_an_address_that_others_reach_needs_a_key(manifest: Applied, listen: str) -> None:
    with pytest.raises(BindError, match="write a loopback address and a port"):
        with_listen(manifest, listen)


def test_a_start_without_files_to_spare_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starved(*_args: object, **_options: object) -> int:
        raise ExceptionGroup("tasks", [OSError(errno.EMFILE, "Too many open files", "/proc")])

    monkeypatch.setattr(anyio, "run", starved)
    (tmp_path / "m.yaml").write_text("apiVersion: reconciler/v1\nmodels: {}\n")
    # Neither the log nor the limits of the tests themselves are to change.
    monkeypatch.setattr("reconciler.app.telemetry.configure", lambda json: None)
    monkeypatch.setattr("reconciler.app.files.take_more", lambda: None)
    path, state = tmp_path / "m.yaml", tmp_path / "state"
    assert run(path, state_dir=state, once=True, listen=None, json=False) == 1
    assert (
        "too little to run with: Too many open files: raise the limit (ulimit -n" in capsys.readouterr().err
    )
