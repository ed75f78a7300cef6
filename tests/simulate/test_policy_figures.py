"""The goals of the residency policy on the traces that are quick; `python -m benchmarks policy` has all of them."""

import pytest

from benchmarks.policy_table import Summary, summary
from policy_runs import cold_ratio, outcome

QUICK = [
    "o02_five_rag",
    "o04_five_asr",
    "o06_twelve_team",
    "r02_servegen6",
    "r03_azure_convcode",
]


def compared(variant: str) -> Summary:
    return summary([outcome(n, variant) for n in QUICK], [outcome(n, "plain") for n in QUICK])


@pytest.mark.parametrize(
    ("name", "cold", "loads"),
    [("o01_five_chat_code", 11448, 340), ("o02_five_rag", 1065, 116), ("o06_twelve_team", 2026, 182)],
)
def test_plain_lru_is_that_of_another_simulator(name: str, cold: int, loads: int) -> None:
    found = outcome(name, "plain")
    assert (round(found.cold), found.loads) == (cold, loads)


# Measured on these five: 0.86, 0.79, 0.65 of the waiting; the goals for all thirteen are 0.92, 0.87, 0.76.
@pytest.mark.parametrize(
    ("variant", "cold", "loads"), [("off", 0.90, 1.00), ("free", 0.82, 1.05), ("full", 0.69, 1.30)]
)
def test_people_wait_less_than_with_plain_lru(variant: str, cold: float, loads: float) -> None:
    found = compared(variant)
    assert found.cold <= cold
    assert found.loads <= loads
    assert found.worst <= 1.05


@pytest.mark.parametrize("variant", ["off", "free", "full"])
def test_nobody_pays_for_it(variant: str) -> None:
    found = compared(variant)
    assert found.longest <= 1.1
    assert found.regrets <= 1.2
    assert found.refused == 0


@pytest.mark.parametrize(("more", "less"), [("full", "free"), ("free", "off"), ("off", "plain")])
def test_each_freedom_spares_waiting(more: str, less: str) -> None:
    assert sum(outcome(n, more).cold for n in QUICK) < 0.97 * sum(outcome(n, less).cold for n in QUICK)


def test_who_knows_the_future_waits_less_than_who_guesses() -> None:
    assert cold_ratio("r03_azure_convcode", "seer-full", "full") < 0.8
    assert cold_ratio("o02_five_rag", "seer-full", "full") < 0.6


@pytest.mark.parametrize(("variant", "least"), [("alone", 10.0), ("ttl", 1.8)])
def test_what_people_run_today_waits_longer(variant: str, least: float) -> None:
    assert cold_ratio("o02_five_rag", variant) > least
