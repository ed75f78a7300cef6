"""What the composition root says of itself."""

from dataclasses import replace

import pytest

from board_samples import applied
from reconciler.app import serving, with_listen
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
