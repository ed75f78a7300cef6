"""What the composition root says of itself."""

from dataclasses import replace

from board_samples import applied
from reconciler.app import serving
from reconciler.manifest.applied import Rule, Virtual, When


def test_the_line_at_the_start_names_what_clients_may_ask_for() -> None:
    models = ["chat", "coder", "embed", "flaky", "vision"]
    assert serving(applied()) == {"models": models}
    auto = Virtual("auto", (Rule(When(code=True), ("coder",)), Rule(When(), ("chat",))))
    assert serving(replace(applied(), virtual={"auto": auto})) == {
        "models": models,
        "virtual": ["auto (coder, chat)"],
    }
