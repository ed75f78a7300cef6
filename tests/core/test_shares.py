"""A file that several models map is in memory once: whole plans as text, one small machine a test.

`chat` and `code` are two models on one file of 300 MiB (say, with other contexts); each holds 100 MiB besides.
"""

from dataclasses import replace
from textwrap import dedent

import pytest

from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.shares import Files, Shares, own, shared, within
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    Load,
    Manifest,
    MayPreempt,
    ModelSpec,
    Preflight,
    World,
)
from worlds import (
    MIB,
    NOW,
    file,
    manifest,
    mapping,
    model,
    perform,
    pinned,
    running,
    text,
    waiting,
    warm,
    world,
)

FILE = file("8:1:7", 300)
OTHER = file("8:1:9", 200)


def sharing(*names: str) -> tuple[Preflight, ...]:
    return tuple(mapping(n, FILE) for n in names)


def up(name: str, alone: int = 100, files: Files = (FILE,), idle: float = 0.0, **fields: object) -> Instance:
    """A process that holds so many MiB besides its files."""
    warm_bytes = sum(f.size for f in files)
    return replace(running(name, alone, idle, warm=warm_bytes, files=files), **fields)  # type: ignore[arg-type]


def planned(wanted: Manifest, seen: World, now: float = NOW) -> str:
    return text(plan(wanted, seen, now))


def expect(actual: str, wanted: str) -> None:
    assert actual == dedent(wanted).strip()


PAIR = (model("chat", 400), model("code", 400))
BOTH = (up("chat", idle=90), up("code", idle=60))


# -- the arithmetic ----------------------------------------------------------------------------------------------


def test_what_holding_takes_and_dropping_frees() -> None:
    shares, both = Shares(), (file("a", 3), file("b", 5))
    assert [shares.hold(both), shares.hold((file("a", 3),)), shares.total] == [8 * MIB, 0, 8 * MIB]
    assert [shares.alone(both), shares.missing((*both, file("c", 1)))] == [5 * MIB, 1 * MIB]
    assert [shares.drop(both), shares.total] == [5 * MIB, 3 * MIB]
    assert [shares.drop((file("a", 3),)), shares.total] == [3 * MIB, 0]
    assert shares.hold(both) == 8 * MIB


def test_of_two_opinions_on_a_size_the_larger_counts_as_long_as_its_holder_is_there() -> None:
    shares = Shares()
    assert [shares.hold((file("a", 3),)), shares.hold((file("a", 5),))] == [3 * MIB, 2 * MIB]
    assert [shares.drop((file("a", 5),)), shares.total] == [2 * MIB, 3 * MIB]


def test_own_is_what_is_in_no_file() -> None:
    assert own(10 * MIB, (file("a", 3), file("b", 5))) == 2 * MIB
    assert own(10 * MIB, ()) == 10 * MIB
    assert own(2 * MIB, (file("a", 3),)) == 0


def test_files_count_only_as_far_as_the_charge_goes() -> None:
    files = (file("a", 3), file("b", 5), file("c", 1))
    assert within(files, 5 * MIB) == (file("a", 3), file("b", 2), file("c", 0))
    assert within(files, 9 * MIB) is files
    assert within(files, None) is files


def test_whether_anything_is_shared() -> None:
    assert not shared([(file("a", 1), file("b", 1)), (file("c", 1),)])
    assert not shared([(file("a", 1), file("a", 1))]), "one holder shares nothing with itself"
    assert shared([(file("a", 1),), (file("b", 1), file("a", 2))])


# -- who comes ----------------------------------------------------------------------------------------------------


def test_the_second_model_on_a_file_needs_only_its_own_part() -> None:
    seen = world(demands=[waiting("chat"), waiting("code")], preflights=sharing("chat", "code"))
    expect(
        planned(manifest(*PAIR), seen),
        """
        + chat needs 400 (Demanded) -> 600
        + code needs 100 (Demanded) -> 500
        """,
    )


def test_that_a_second_one_fits_beside_the_first_only_because_they_share() -> None:
    seen = world(up("chat"), demands=[waiting("code")], preflights=sharing("chat", "code"))
    expect(planned(manifest(*PAIR, mib=500), seen), "+ code needs 100 (Demanded) -> 0\n= chat (Resident)")
    apart = world(
        up("chat"), demands=[waiting("code")], preflights=[*sharing("chat"), mapping("code", OTHER)]
    )
    assert planned(manifest(*PAIR, mib=500), apart).startswith("- chat frees 400 (MakeRoom for code)")


def test_the_load_peak_of_the_second_one_leaves_the_file_out_too() -> None:
    wanted = manifest(PAIR[0], model("code", 400, peak=550 * MIB))
    seen = world(up("chat"), demands=[waiting("code")], preflights=sharing("chat", "code"))
    expect(planned(wanted, seen), "+ code needs 250 (Demanded) -> 500\n= chat (Resident)")
    load = plan(wanted, seen, NOW).head
    assert isinstance(load, Load)
    assert load.size == 400 * MIB, "alone it would be charged all of it"


def test_the_account_counts_the_file_once() -> None:
    account = plan(manifest(*PAIR), world(*BOTH, preflights=sharing("chat", "code")), NOW).account
    assert (account.held, account.reserved, account.free) == (500 * MIB, 0, 500 * MIB)


def test_a_model_that_loads_reserves_what_is_not_there_yet() -> None:
    loading = up("code", alone=5, files=(), ready=False)
    account = plan(manifest(*PAIR), world(BOTH[0], loading, preflights=sharing("chat", "code")), NOW).account
    assert (account.held, account.reserved, account.free) == (400 * MIB, 100 * MIB, 500 * MIB)
    first = plan(manifest(*PAIR), world(loading, preflights=sharing("chat", "code")), NOW).account
    assert (first.held, first.reserved, first.free) == (0, 400 * MIB, 600 * MIB)


def test_while_one_loads_a_file_the_next_does_not_need_it_again() -> None:
    loading = up("chat", alone=5, files=(), ready=False)
    seen = world(loading, demands=[waiting("code")], preflights=sharing("chat", "code"))
    expect(planned(manifest(*PAIR), seen), "+ code needs 100 (Demanded) -> 500\n= chat (Loading)")


def test_a_stated_size_smaller_than_the_file_is_believed() -> None:
    """Whoever knows that half of the weights are never touched may say so."""
    wanted = manifest(model("chat", 120), model("code", 400))
    seen = world(demands=[waiting("chat")], preflights=sharing("chat", "code"))
    expect(planned(wanted, seen), "+ chat needs 120 (Demanded) -> 880\n. code (NotWanted)")
    half = up("chat", 20, (file("8:1:7", 100),))
    beside = world(half, demands=[waiting("code")], preflights=sharing("chat", "code"))
    expect(planned(wanted, beside), "+ code needs 280 (Demanded) -> 600\n= chat (Resident)")


def test_a_file_that_was_just_loaded_is_room_for_nobody_else() -> None:
    wanted = manifest(model("chat", 400), model("new", 700))
    seen = world(demands=[waiting("chat", since=9), waiting("new")], preflights=sharing("chat"))
    expect(planned(wanted, seen), "+ chat needs 400 (Demanded) -> 600\n! new (InsufficientMemory)")


# -- who goes -----------------------------------------------------------------------------------------------------


def test_evicting_one_of_two_frees_only_its_own_part_and_the_plan_says_so() -> None:
    wanted = manifest(*PAIR, model("new", 550))
    seen = world(*BOTH, demands=[waiting("new")], preflights=sharing("chat", "code"))
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (MakeRoom for new) -> 600
        + new needs 550 (Demanded) -> 50
        = code (Resident)
        """,
    )


def test_both_go_where_the_file_itself_is_needed_and_the_last_one_frees_it() -> None:
    wanted = manifest(*PAIR, model("new", 750))
    seen = world(*BOTH, demands=[waiting("new")], preflights=sharing("chat", "code"))
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (MakeRoom for new) -> 600
        - code frees 400 (MakeRoom for new) -> 1000
        + new needs 750 (Demanded) -> 250
        """,
    )


def test_nobody_goes_whose_going_would_free_too_little_because_another_keeps_the_file() -> None:
    """`chat` may be displaced, and would give 100 of the 350 that are missing; `code` outranks the claimant."""
    wanted = manifest(model("chat", 400), model("code", 400, priority=750), model("new", 850))
    seen = world(*BOTH, demands=[waiting("new", since=999)], preflights=sharing("chat", "code"))
    expect(planned(wanted, seen), "= chat (Resident)\n= code (Resident)\n! new (Outranked)")


@pytest.mark.parametrize(
    ("keeper", "reason"),
    [(pinned("code", 400), "InsufficientMemory"), (model("code", 400, priority=750), "Outranked")],
)
def test_the_reason_for_waiting_knows_that_the_file_stays(keeper: ModelSpec, reason: str) -> None:
    """Told that its victims are busy, a client would wait for what waiting cannot bring."""
    wanted = manifest(model("chat", 400), keeper, model("new", 450))
    seen = world(
        *BOTH,
        demands=[waiting("new"), Demand("chat", active=1)],
        preflights=sharing("chat", "code"),
        available_mib=300,
    )
    verdict = plan(wanted, seen, NOW).verdict("new")
    assert verdict is not None
    assert verdict.reason == reason


def test_a_victim_that_proved_spare_is_left_out_although_it_was_used_least_recently() -> None:
    """350 are missing. `chat` would give 100, as `code` keeps the file; then `big` turns out to be enough alone."""
    wanted = manifest(*PAIR, model("big", 400), model("new", 450))
    seen = world(
        *BOTH, running("big", 400, idle=70), demands=[waiting("new")], preflights=sharing("chat", "code")
    )
    expect(
        planned(wanted, seen),
        """
        - big frees 400 (MakeRoom for new) -> 500
        + new needs 450 (Demanded) -> 50
        = chat (Resident)
        = code (Resident)
        """,
    )


def test_neither_of_two_is_spare_where_only_both_together_free_the_file() -> None:
    wanted = manifest(*PAIR, model("big", 400), model("new", 450))
    seen = world(
        *BOTH, running("big", 400, idle=30), demands=[waiting("new")], preflights=sharing("chat", "code")
    )
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (MakeRoom for new) -> 200
        - code frees 400 (MakeRoom for new) -> 600
        + new needs 450 (Demanded) -> 150
        = big (Resident)
        """,
    )


def test_a_claimant_that_maps_its_victims_file_gains_only_the_victims_own_part() -> None:
    wanted = manifest(model("chat", 400), model("fat", 700), mib=750)
    seen = world(up("chat", idle=90), demands=[waiting("fat")], preflights=sharing("chat", "fat"))
    expect(
        planned(wanted, seen),
        """
        - chat frees 400 (MakeRoom for fat) -> 750
        + fat needs 700 (Demanded) -> 50
        """,
    )
    wide = manifest(model("chat", 400), model("fat", 700), mib=800)
    expect(planned(wide, seen), "+ fat needs 400 (Demanded) -> 0\n= chat (Resident)")
    wanted = manifest(model("chat", 400), model("mid", 250), model("fat", 900))
    seen = world(
        up("chat", idle=90),
        running("mid", 250, idle=30),
        demands=[waiting("fat")],
        preflights=sharing("chat", "fat"),
    )
    # 250 are missing: were the file counted as given back, `chat` would go in vain.
    expect(
        planned(wanted, seen),
        """
        - mid frees 250 (MakeRoom for fat) -> 600
        + fat needs 600 (Demanded) -> 0
        = chat (Resident)
        """,
    )


@pytest.mark.parametrize(
    ("mib", "plan_text"),
    [
        # It lacks 50 of the 150 it needs besides the file: what `old` gives back would be owed to it.
        (450, "= chat (InUse)\n! new (Outranked)\n= old (Resident)\n! top (Outranked)"),
        # It needs 650 besides the file, and would not fit even with `old` gone.
        (
            950,
            """
            - old frees 550 (MakeRoom for new) -> 600
            + new needs 100 (Demanded) -> 500
            = chat (InUse)
            ! top (Outranked)
            """,
        ),
    ],
)
def test_what_a_more_urgent_model_is_owed_is_counted_with_the_file_that_is_there(
    mib: int, plan_text: str
) -> None:
    """`top` may displace nobody."""
    top = model("top", mib, priority=1000, may_preempt=MayPreempt.NONE)
    wanted = manifest(top, model("chat", 400), model("new", 100), model("old", 550))
    seen = world(
        up("chat"),
        running("old", 550, idle=900),
        demands=[waiting("top"), waiting("new"), Demand("chat", active=1)],
        preflights=sharing("top", "chat"),
    )
    expect(planned(wanted, seen), plan_text)


# -- pinned -------------------------------------------------------------------------------------------------------


def test_two_pinned_models_on_one_file_fit_where_the_file_fits_once() -> None:
    wanted = manifest(pinned("chat", 400), pinned("code", 400), model("new", 500))
    seen = world(preflights=sharing("chat", "code"))
    expect(
        planned(wanted, seen),
        """
        + chat needs 400 (Pinned) -> 600
        + code needs 100 (Pinned) -> 500
        . new (NotWanted)
        """,
    )


@pytest.mark.parametrize(("mib", "reason"), [(500, "NotWanted"), (501, "NeverFits")])
def test_never_fits_counts_the_file_of_the_pinned_once(mib: int, reason: str) -> None:
    wanted = manifest(pinned("chat", 400), pinned("code", 400), model("new", mib))
    for seen in (world(preflights=sharing("chat", "code")), world(*BOTH, preflights=sharing("chat", "code"))):
        verdict = plan(wanted, seen, NOW).verdict("new")
        assert verdict is not None
        assert verdict.reason == reason


@pytest.mark.parametrize(("mib", "reason"), [(800, "NotWanted"), (801, "NeverFits")])
def test_never_fits_knows_that_a_model_shares_with_the_pinned(mib: int, reason: str) -> None:
    wanted = manifest(pinned("chat", 400), pinned("code", 400), model("new", mib))
    seen = world(*BOTH, preflights=sharing("chat", "code", "new"))
    verdict = plan(wanted, seen, NOW).verdict("new")
    assert verdict is not None
    assert verdict.reason == reason


def test_never_fits_of_a_pinned_model_leaves_itself_out() -> None:
    seen = world(up("chat"), preflights=sharing("chat", "code"))
    expect(
        planned(manifest(pinned("chat", 400), pinned("code", 400), mib=500), seen),
        "+ code needs 100 (Pinned) -> 0\n= chat (Pinned)",
    )
    expect(
        planned(manifest(pinned("chat", 400), pinned("code", 400), mib=499), seen),
        "= chat (Pinned)\n! code (NeverFits)",
    )


# -- who leaves anyway --------------------------------------------------------------------------------------------


def test_changed_settings_on_the_same_file_move_only_the_own_part() -> None:
    wanted = manifest(warm("chat", 450, digest="chat-v2"), model("code", 400))
    seen = world(*BOTH, preflights=sharing("chat", "code"))
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (Drifted) -> 600
        + chat needs 150 (Warm) -> 450
        = code (Resident)
        """,
    )
    alone = world(BOTH[0], preflights=sharing("chat", "code"))
    assert planned(wanted, alone).startswith(
        "- chat frees 400 (Drifted) -> 1000\n+ chat needs 450 (Warm) -> 550"
    )


def test_a_model_that_is_replaced_gives_back_its_file_too_where_nobody_else_maps_it() -> None:
    wanted = manifest(warm("chat", 450, digest="chat-v2"), mib=450)
    other = warm("chat", 350, digest="chat-v2")
    expect(
        planned(wanted, world(BOTH[0], preflights=sharing("chat"))),
        "- chat frees 400 (Drifted) -> 450\n+ chat needs 450 (Warm) -> 0",
    )
    expect(
        planned(manifest(other, mib=450), world(BOTH[0], preflights=[mapping("chat", OTHER)])),
        "- chat frees 400 (Drifted) -> 450\n+ chat needs 350 (Warm) -> 100",
    )


def test_a_process_that_holds_nothing_of_its_own_is_replaced_all_the_same() -> None:
    wanted = manifest(warm("chat", 450, digest="chat-v2"), model("code", 400))
    seen = world(up("chat", 0), up("code"), preflights=sharing("chat", "code"))
    assert planned(wanted, seen).startswith("- chat frees 0 (Drifted) -> 600\n+ chat needs 150 (Warm) -> 450")


def test_a_removed_model_gives_back_only_what_the_one_that_stays_does_not_map() -> None:
    seen = world(*BOTH, preflights=sharing("chat"))
    expect(
        planned(manifest(model("chat", 400)), seen), "- code frees 100 (Removed) -> 600\n= chat (Resident)"
    )
    expect(
        planned(manifest(), seen),
        "- chat frees 100 (Removed) -> 600\n- code frees 400 (Removed) -> 1000",
    )


def test_a_renamed_model_is_loaded_beside_the_old_process_which_then_frees_its_own_part() -> None:
    wanted = manifest(model("new", 400))
    seen = world(up("old"), demands=[waiting("new")], preflights=sharing("new"))
    expect(planned(wanted, seen), "+ new needs 100 (Demanded) -> 500\n- old frees 100 (Removed) -> 600")
    tight = manifest(model("new", 400), mib=450)
    expect(planned(tight, seen), "- old frees 400 (Removed) -> 450\n+ new needs 400 (Demanded) -> 50")


def test_a_second_process_of_one_model_frees_its_own_part() -> None:
    seen = world(up("chat", pid=7, digest="chat-v0"), up("chat", pid=9), preflights=sharing("chat"))
    expect(planned(manifest(warm("chat", 400)), seen), "- chat frees 100 (Duplicate) -> 600")


def test_over_budget_takes_as_many_as_it_needs_with_the_file_staying() -> None:
    wanted = manifest(*PAIR, model("big", 100), mib=450)
    seen = world(*BOTH, running("big", 100, idle=5), preflights=sharing("chat", "code"))
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (OverBudget) -> 0
        - code frees 400 (OverBudget) -> 350
        = big (Resident)
        """,
    )


# -- what is really there ------------------------------------------------------------------------------------------


def test_a_load_and_an_eviction_move_what_is_available_by_the_own_part() -> None:
    """The kernel calls the file's pages available all along, so only the own parts are seen to come and go."""
    seen = world(
        demands=[waiting("chat"), waiting("code")], preflights=sharing("chat", "code"), available_mib=600
    )
    wanted = manifest(*PAIR)
    for expected in (500, 400):
        head = plan(wanted, seen, NOW).head
        assert isinstance(head, Load)
        seen = perform(head, wanted, seen)
        assert seen.observation.memory.available == expected * MIB
    account = plan(wanted, seen, NOW).account
    assert (account.held, account.free) == (500 * MIB, 100 * MIB)


def test_under_pressure_they_go_in_order_until_what_they_really_free_is_enough() -> None:
    pressure = Pressure(Level.HARD, 0.9, True, True, excess=150 * MIB, cause="memory is short")
    seen = world(*BOTH, running("big", 100, idle=5), preflights=sharing("chat", "code"), pressure=pressure)
    wanted = manifest(*PAIR, model("big", 100))
    expect(
        planned(wanted, seen),
        """
        - chat frees 100 (MemoryPressure) -> 500
        - code frees 400 (MemoryPressure) -> 900
        = big (Resident)
        """,
    )
    less = replace(seen, observation=replace(seen.observation, pressure=replace(pressure, excess=100 * MIB)))
    assert [s.model for s in plan(wanted, less, NOW).steps if isinstance(s, Evict)] == ["chat"]
