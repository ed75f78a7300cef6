"""The budget of a manifest: its figures, what fits together, and how people read it."""

import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from golden_files import assert_golden
from reconciler.core.memory import Estimate, GpuPool, HostUse, MappedFile, Memory, Said, Watermarks
from reconciler.core.plan import plan
from reconciler.core.types import LedgerEntry, Manifest, Outcome, Preflight, Residency, World
from reconciler.manifest.applied import Source
from reconciler.render import schemas
from reconciler.render.budget_document import budget
from reconciler.render.budget_text import WIDTH, budget_text
from reconciler.render.plan_document import as_json
from worlds import GIB, MIB, NOW, manifest, model, pinned, running, warm, world

SOURCE = Source("manifests/", git_commit="3f2c1ab")


def document(manifest: Manifest, world: World, seen_by: Any = "files") -> dict[str, Any]:
    made = unchecked(manifest, world, seen_by)
    jsonschema.Draft202012Validator(schemas.budget_schema()).validate(made)
    return made


def unchecked(manifest: Manifest, world: World, seen_by: Any = "files") -> dict[str, Any]:
    return as_json(budget(manifest, world, SOURCE, seen_by))


def gib(count: float) -> int:
    return int(count * GIB)


def desk() -> tuple[Manifest, World]:
    """Five models on 64 GiB: one pinned and loaded, one warm, one that peaks, one nobody knows the size of."""
    chat = Estimate(gib(40), gib(2.5), gib(0.4), 0, gib(0.1), loading=gib(1))
    embed = Estimate(gib(1), gib(0.1), gib(0.05), gib(0.1), gib(0.02))
    preflights = (
        Preflight("chat", steady=chat.steady, peak=chat.peak, parts=chat, build="b1"),
        Preflight("embed", steady=embed.steady, peak=embed.peak, parts=embed),
        Preflight("gone", "NotStartable", "the weights /w/gone.gguf do not exist"),
        Preflight("vision", message="give context.max_tokens, or memory.steady"),
    )
    entries = (
        LedgerEntry("chat", "chat-v1", gib(42), build="b1", said=Said(context=gib(2.6))),
        LedgerEntry("embed", "embed-v1", gib(1.1)),
    )
    wanted = manifest(
        pinned("chat", None),
        model("coder", 20 * 1024, peak=gib(24)),
        warm("embed", None),
        model("gone", 1024),
        model("vision", None),
        mib=64 * 1024,
        reserve=0.1,
        generation=7,
    )
    return wanted, world(
        running("chat", 42 * 1024),
        running("old", 512),
        preflights=preflights,
        ledger=entries,
        total_mib=64 * 1024,
        available_mib=20 * 1024,
    )


def described(manifest: Manifest, world: World) -> tuple[Manifest, World]:
    """The same with everything a machine may tell: watermarks, a GPU, other programs, a probe that failed."""
    memory = Memory(
        gib(64),
        gib(19),
        "/proc/meminfo",
        host=HostUse(gib(64), gib(19), programs=gib(43), kernel=gib(1), pools=0),
        gpu=GpuPool(gib(56), gib(1), "test"),
        problems=("/proc/pressure/memory is not there",),
    )
    seen = replace(world.observation, memory=memory)
    return replace(manifest, watermarks=Watermarks()), replace(world, observation=seen)


def test_the_parts_of_every_model_are_told_apart() -> None:
    models = {m["name"]: m for m in document(*desk())["models"]}
    assert models["chat"]["bytes"] == {
        "weights": gib(40),
        "context": gib(2.6),  # what the engine said it took counts more than the estimate
        "overhead": gib(0.4) + gib(0.1),
        "peak": models["chat"]["bytes"]["charged"] + gib(1),
        "measured": gib(42),
        "charged": gib(40) + gib(2.6) + gib(0.4) + gib(0.1),
    }
    assert models["embed"]["bytes"]["overhead"] == gib(0.05) + gib(0.1) + gib(0.02)
    assert models["coder"]["bytes"] == {
        "weights": None,
        "context": None,
        "overhead": None,
        "peak": gib(24),
        "measured": None,
        "charged": gib(20),
    }
    assert (models["coder"]["stated"], models["chat"]["stated"]) == (gib(20), None)
    assert [(n, m["state"], m["residency"]) for n, m in models.items() if m["state"] != "cold"] == [
        ("chat", "ready", "pinned"),
        ("old", "ready", None),
    ]


def test_what_is_unknown_is_null_with_the_key_to_give_and_never_nothing() -> None:
    made = document(*desk())
    vision = next(m for m in made["models"] if m["name"] == "vision")
    assert set(vision["bytes"].values()) == {None}
    assert vision["hint"] == "give context.max_tokens, or memory.steady"
    assert next(m for m in made["models"] if m["name"] == "gone")["hint"].startswith(
        "NotStartable: the weights"
    )
    assert made["all"]["fits"] is None
    assert made["all"]["unknown"] == ["vision"]
    assert "charged" in made["totals"]["incomplete"]
    bare = document(manifest(model("bare", None)), world())
    assert bare["models"][0]["hint"] == "give memory.steady"
    row = next(line for line in budget_text(made).splitlines() if line.startswith("vision "))
    assert row.split() == ["vision", "cold", "on_demand", "?", "?", "?", "?", "-", "?"]


def test_the_account_is_the_plans() -> None:
    wanted, seen = desk()
    machine = document(wanted, seen)["machine"]
    account = plan(wanted, seen, NOW).account
    assert (machine["budget"], machine["held"], machine["reserved"], machine["headroom"]) == (
        account.budget,
        account.held,
        account.reserved,
        account.free,
    )
    assert (machine["share"], machine["stated"], machine["total"]) == (gib(64),) * 3
    assert machine["reserve"] == int(gib(64) * 0.1)


def test_watermarks_gpu_others_and_the_rest_are_shown_where_they_are_known() -> None:
    machine = document(*described(*desk()))["machine"]
    assert (machine["soft"], machine["hard"], machine["gpu"]) == (gib(48), int(gib(64) * 0.85), gib(56))
    assert machine["host"]["others"] == gib(43) - gib(42.5)
    assert machine["host"]["unattributed"] == gib(64) - gib(19) - gib(43) - gib(1)
    plain = document(*desk())["machine"]
    assert {plain[key] for key in ("soft", "hard", "gpu", "host")} == {None}


def first_lines(
    memory: Memory, mib: int | None, reserve: int = 0, marks: Watermarks | None = None
) -> list[str]:
    """Return the lines between the origin and the table, with one loaded model of 100 MiB."""
    base = world(running("a", 100))
    seen = replace(base, observation=replace(base.observation, memory=memory))
    wanted = replace(
        manifest(model("a", 100), reserve=reserve * MIB, marks=marks),
        memory=None if mib is None else mib * MIB,
    )
    return budget_text(unchecked(wanted, seen)).split("\n\n")[0].splitlines()[1:]


def test_a_control_group_and_the_machine_are_told_apart() -> None:
    host = HostUse(2000 * MIB, 1000 * MIB, programs=700 * MIB, kernel=200 * MIB, pools=50 * MIB)
    group = Memory(400 * MIB, 380 * MIB, "test", host=host)
    assert first_lines(group, None, marks=Watermarks()) == [
        (
            "models   400 MiB of the control group   0 reserve   340 budget (the hard mark)   "
            "100 held   0 reserved   240 headroom"
        ),
        "group    400 MiB limit   380 available   300 soft   340 hard",
        "machine  2000 MiB total   1000 available   100 models   600 others   250 kernel   50 unattributed",
    ]
    assert first_lines(group, 300)[0].startswith(
        "models   300 MiB stated   0 reserve   300 budget   100 held"
    )


def test_what_is_stated_is_no_more_than_there_is() -> None:
    seen = Memory(1000 * MIB, 150 * MIB, "test", gpu=GpuPool(700 * MIB, 0, "test"))
    assert first_lines(seen, 1500, 100) == [
        (
            "models   1000 MiB of the machine (1500 stated)   100 reserve   700 budget (the GPU ceiling)   100 held"
            "   0 reserved   50 headroom (of 150 available)"
        ),
        "machine  1000 MiB total   150 available   700 GPU ceiling",
    ]
    lines = first_lines(seen, None, 100 << 10)
    assert lines[0].startswith(
        "models   1000 MiB of the machine   102400 reserve   0 budget (the reserve leaves nothing)   100 held"
    )


@given(
    st.tuples(st.integers(0, 700), st.integers(100, 700), st.integers(0, 200)).filter(
        lambda parts: sum(parts) <= 1000
    ),
    st.none() | st.integers(1, 1020),
    st.integers(0, 300),
    st.booleans(),
)
def test_the_figures_of_a_line_add_up(
    parts: tuple[int, int, int], mib: int | None, reserve: int, marks: bool
) -> None:
    """Each figure of the models' line follows from those before it, or the line says what else binds."""
    available, programs, kernel = (part * MIB for part in parts)
    host = HostUse(1000 * MIB, available, programs, kernel)
    seen = Memory(1000 * MIB, available, "test", host=host)
    models, machine = first_lines(seen, mib, reserve, Watermarks() if marks else None)
    figures = [int(word) for word in re.findall(r"   (\d+) ", models)]
    share, kept, budget, held, reserved, headroom = figures
    assert budget == max(0, share - kept) or "budget (" in models
    assert headroom == max(0, budget - held - reserved) or "headroom (of " in models
    total, *held_by = [int(word) for word in re.findall(r"  (\d+) ", machine)][: -2 if marks else None]
    assert (total, len(held_by), sum(held_by)) == (1000, 5, 1000)


@pytest.mark.parametrize(
    ("models", "mib", "expected"),
    [
        ((pinned("a", 500), pinned("b", 400)), 900, True),
        ((pinned("a", 500), pinned("b", 400)), 899, False),
        # The last to load needs its peak while the others are there.
        ((pinned("a", 500), pinned("b", 400, peak=450 * MIB)), 949, False),
        ((pinned("a", 500), pinned("b", 400, peak=450 * MIB)), 950, True),
        ((pinned("a", 500), pinned("b", None)), 900, None),
        ((warm("a", 500),), 100, True),
    ],
)
def test_whether_all_pinned_models_fit_together(models: Any, mib: int, expected: bool | None) -> None:
    made = document(manifest(*models, mib=mib), world())
    assert made["pinned"]["fits"] is expected
    if expected is False:
        assert made["pinned"]["short"] == made["pinned"]["need"] - mib * MIB
        assert "do not fit together" in budget_text(made)


def test_a_file_that_two_models_map_counts_once() -> None:
    files = (MappedFile("8:1:1", 300 * MIB),)
    preflights = [Preflight(name, files=files) for name in ("a", "b")]
    made = document(manifest(pinned("a", 400), pinned("b", 400), mib=500), world(preflights=preflights))
    assert (made["pinned"]["need"], made["pinned"]["fits"]) == (500 * MIB, True)
    assert made["totals"]["bytes"]["charged"] == 500 * MIB
    assert [(m["name"], m["bytes"]) for m in made["bar"]["models"]] == [("a", 400 * MIB), ("b", 100 * MIB)]
    assert made["bar"]["over"] == 0
    alone = world(running("a", 400, files=files), preflights=preflights)
    beside = document(manifest(model("a", 400), model("b", 400), mib=500), alone)["beside"]
    assert [(f["models"], f["need"], f["fits"]) for f in beside] == [(["b"], 100 * MIB, True)]


def sharing() -> World:
    """Two loaded models of 400 MiB, 300 of them one file that both map."""
    files = (MappedFile("8:1:1", 300 * MIB),)
    parts = Estimate(weights=300 * MIB, context=60 * MIB, compute=20 * MIB, cache=0, overhead=20 * MIB)
    preflights = [
        Preflight(n, steady=parts.steady, peak=parts.peak, parts=parts, files=files) for n in ("a", "b")
    ]
    running_both = [
        replace(running(n, 400, files=files), committed=100 * MIB, warm=300 * MIB) for n in ("a", "b")
    ]
    return world(*running_both, preflights=preflights)


def test_the_bar_and_the_totals_of_models_that_share_a_file_are_those_of_the_account() -> None:
    wanted = manifest(model("a", None), model("b", None), mib=600)
    made = document(wanted, sharing())
    machine, totals = made["machine"], made["totals"]["bytes"]
    assert (machine["held"], machine["headroom"]) == (500 * MIB, 100 * MIB)
    assert (totals["charged"], totals["measured"]) == (500 * MIB, 500 * MIB)
    assert (totals["weights"], totals["context"], totals["overhead"]) == (300 * MIB, 120 * MIB, 80 * MIB)
    assert sum(m["bytes"] for m in made["bar"]["models"]) == machine["held"]
    assert (made["bar"]["free"], made["bar"]["over"]) == (machine["headroom"], 0)
    text = budget_text(made)
    assert "# a 400 MiB  = b 100 MiB  . free 100 MiB" in text
    assert "over by" not in text


def test_what_was_measured_of_a_file_that_is_resident_in_part_is_not_taken_for_shared() -> None:
    files = (MappedFile("8:1:1", 300 * MIB),)
    both = [
        replace(running(n, 400, files=(MappedFile("8:1:1", 50 * MIB),)), committed=100 * MIB, warm=50 * MIB)
        for n in ("a", "b")
    ]
    seen = world(*both, preflights=[Preflight(n, steady=400 * MIB, files=files) for n in ("a", "b")])
    made = document(manifest(model("a", None), model("b", None), mib=600), seen)
    assert made["totals"]["bytes"]["measured"] == (100 + 100 + 50) * MIB
    # Once they have gone, the most that was measured of each has the whole file in it.
    entries = [LedgerEntry(n, f"{n}-v1", 400 * MIB) for n in ("a", "b")]
    cold = world(preflights=seen.observation.preflights, ledger=entries)
    made = document(manifest(model("a", None), model("b", None), mib=600), cold)
    assert made["totals"]["bytes"]["measured"] == 500 * MIB


@given(
    sizes=st.lists(st.tuples(st.integers(1, 400), st.booleans(), st.booleans()), min_size=1, max_size=5),
    shared=st.integers(0, 300),
    mib=st.integers(1, 2000),
    available=st.integers(0, 2000),
)
def test_the_bar_agrees_with_the_account(
    sizes: list[tuple[int, bool, bool]], shared: int, mib: int, available: int
) -> None:
    """Loaded models are what is held, and what is free once the wanted ones came is what is left of the headroom."""
    files = (MappedFile("8:1:1", shared * MIB),) if shared else ()
    models = [warm(f"m{n}", size + shared) for n, (size, _, _) in enumerate(sizes)]
    loaded = [
        replace(
            running(f"m{n}", size + shared, files=files), committed=size * MIB, warm=shared * MIB, ready=ready
        )
        for n, (size, is_loaded, ready) in enumerate(sizes)
        if is_loaded
    ]
    preflights = [Preflight(f"m{n}", files=files) for n in range(len(sizes))]
    seen = world(*loaded, preflights=preflights, total_mib=2000, available_mib=available)
    made = unchecked(manifest(*models, mib=mib, reserve=0.1), seen)
    machine, bar = made["machine"], made["bar"]
    here = {i.model for i in loaded}
    taken = sum(m["bytes"] for m in bar["models"] if m["name"] in here)
    if len(here) == len(sizes):
        assert taken == machine["held"] + machine["reserved"]
        assert bar["free"] == machine["headroom"]
    together = sum(m["bytes"] for m in bar["models"])
    assert together >= machine["held"] + machine["reserved"]
    assert bar["free"] == max(0, machine["headroom"] - (together - machine["held"] - machine["reserved"]))
    rest = bar["free"] + bar["unavailable"] + bar["reserve"] - bar["over"]
    assert together + rest == machine["share"]


def test_a_running_model_that_cannot_be_read_takes_its_size_at_least() -> None:
    blind = replace(running("a", 400), committed=None, warm=None)
    made = document(manifest(pinned("a", 400), pinned("b", 300), mib=600), world(blind))
    assert (made["pinned"]["need"], made["pinned"]["fits"]) == (700 * MIB, False)


def test_the_two_largest_that_never_stand_together_are_named() -> None:
    made = document(manifest(model("a", 600), model("b", 500), model("c", 10)), world())
    assert made["two_largest"]["models"] == ["a", "b"]
    assert "a and b: never together, 100 MiB short" in budget_text(made)
    fitting = document(manifest(model("a", 600), model("b", 400)), world())
    assert fitting["two_largest"]["fits"] is True
    assert "never together" not in budget_text(fitting)
    assert document(manifest(model("a", 600)), world())["two_largest"] is None


sizes = st.lists(st.one_of(st.none(), st.integers(1, 600)), min_size=1, max_size=6)


@given(sizes, st.sets(st.integers(0, 5)), st.integers(50, 1500))
def test_a_model_said_to_fit_now_is_loaded_by_the_plan_without_an_eviction(
    mibs: list[int | None], loaded: set[int], mib: int
) -> None:
    """What the budget promises is what the plan then does."""
    models = [model(f"m{n}", size) for n, size in enumerate(mibs)]
    instances = [running(f"m{n}", mibs[n]) for n in loaded if n < len(mibs) and mibs[n] is not None]
    assume(sum(i.committed or 0 for i in instances) <= mib * MIB)  # else the plan evicts whatever comes
    seen = world(*instances)
    made = unchecked(manifest(*models, mib=mib), seen)
    for fit in made["beside"]:
        name = fit["models"][0]
        asked = [replace(m, residency=Residency.WARM) if m.name == name else m for m in models]
        planned = plan(manifest(*asked, mib=mib), seen, NOW)
        verdict = planned.verdict(name)
        assert verdict is not None
        assert (verdict.outcome is Outcome.LOAD) is fit["fits"]


@given(sizes, st.integers(1, 3000), st.sampled_from([0.0, 0.1, 0.5]))
def test_the_bar_is_always_as_wide_and_no_figure_is_nothing(
    mibs: list[int | None], mib: int, reserve: float
) -> None:
    models = [warm(f"m{n}", size) for n, size in enumerate(mibs)]
    text = budget_text(unchecked(manifest(*models, mib=mib, reserve=reserve), world()))
    bar = next(line for line in text.splitlines() if line.startswith("memory   ["))
    assert len(bar) == len("memory   []") + WIDTH
    unknown = [f"m{n}" for n, size in enumerate(mibs) if size is None]
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("m") and " cold " in line}
    assert [name for name, row in rows.items() if row.endswith("?")] == unknown


def test_as_people_read_it() -> None:
    wanted, seen = described(*desk())
    assert_golden("budget.txt", budget_text(document(wanted, seen, "loop")) + "\n")


def test_on_a_terminal_with_blocks() -> None:
    assert_golden("budget-blocks.txt", budget_text(document(*desk()), blocks=True) + "\n")


def test_before_anything_runs_and_with_nothing_known() -> None:
    wanted, seen = desk()
    empty = replace(
        seen,
        ledger=(),
        observation=replace(seen.observation, instances=(), memory=Memory(None, None, "no /proc")),
    )
    text = budget_text(document(replace(wanted, memory=None), empty))
    assert_golden("budget-blind.txt", text + "\n")
    many = manifest(*(warm(f"m{n:02}", 10 + n) for n in range(12)), mib=200)
    assert_golden("budget-many.txt", budget_text(document(many, world())) + "\n")


def test_colour_adds_codes_and_nothing_else() -> None:
    made = document(*desk())
    coloured = budget_text(made, colour=True)
    assert "\x1b[32mready\x1b[0m" in coloured.replace(" ", "")
    assert re.sub(r"\x1b\[\d+m", "", coloured) == budget_text(made)


def test_what_can_never_be_loaded_does_not_fit_now_either() -> None:
    """The pinned model is not there yet: beside what is loaded there would be room."""
    wanted = manifest(pinned("chat", 600), model("code", 500), model("tiny", 10), mib=1000)
    made = document(wanted, world())
    assert [(f["models"], f["short"], f["need"]) for f in made["never"]] == [
        (["code"], 100 * MIB, 1100 * MIB)
    ]
    lines = budget_text(made).splitlines()
    assert "fits now       chat, tiny, each beside what is loaded" in lines
    assert "never          code (100 MiB short), even with only the pinned models there" in lines
    said = {v.model: v.reason for v in plan(wanted, world(), NOW).verdicts}
    assert said["code"] == "NeverFits"


def test_one_pinned_model_that_is_too_large_is_the_only_one_that_never_fits() -> None:
    wanted = manifest(pinned("chat", 1600), model("code", 500), mib=1000)
    made = document(wanted, world())
    assert [f["models"] for f in made["never"]] == [["chat"]]
    assert "fits now       code, each beside what is loaded" in budget_text(made)
