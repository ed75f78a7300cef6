"""When a model is suspected to hang, and when that is sure: one that answers never is, one that does not always."""

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.loop.suspicion import (
    CLOSED,
    FAULTS,
    PAUSE_FIRST,
    QUIET,
    SILENCE,
    STOPPED,
    WRONG,
    Cause,
    Suspicion,
    Use,
    Vitals,
)

PATIENCE = 600.0


@dataclass
class Watch:
    """A suspicion, and the seconds that were looked at."""

    suspicion: Suspicion = field(default_factory=lambda: Suspicion(0.0))
    ran: float = 0.0
    vitals: Vitals = field(default_factory=lambda: Vitals(listens=True, cpu=0.0, reads=0))
    use: Use = field(default_factory=Use)
    patience: float = PATIENCE

    def wait(self, seconds: float, *, cpu: float = 0.0, bytes_come: bool = False, acts: bool = True) -> None:
        """Look once a second; each of them so much is computed."""
        for _ in range(round(seconds)):
            self.ran += 1.0
            self.vitals = replace(self.vitals, cpu=(self.vitals.cpu or 0.0) + cpu)
            self.use = replace(self.use, received=self.use.received + bytes_come)
            self.suspicion.look(self.ran, self.vitals, self.use, self.patience, acts=acts)

    def cause(self) -> Cause | None:
        return self.suspicion.cause

    def asks(self) -> bool:
        """Return whether it is to be asked now, and note that it is."""
        due = self.suspicion.is_to_be_asked(self.ran, self.patience)
        if due:
            self.suspicion.asked(self.ran)
        return due


def owing(count: int = 1) -> Watch:
    """Return one that owes something to so many requests."""
    watch = Watch()
    watch.wait(1)
    watch.use = Use(active=count, owed=count)
    return watch


def test_silence_is_suspected_asked_about_and_then_sure() -> None:
    watch = owing(2)
    watch.wait(SILENCE - 1)
    assert watch.cause() is None
    watch.wait(1)
    assert watch.cause() is Cause.SILENT
    assert watch.suspicion.why == "2 requests got nothing for 30s, and its process does nothing"
    assert watch.asks()
    assert not watch.asks(), "one at a time"
    watch.wait(SILENCE - 1)
    assert not watch.suspicion.hung
    watch.wait(1)
    assert watch.suspicion.hung.endswith("a small request of our own got no answer within 30s either")


def test_an_idle_model_is_never_suspected_of_silence() -> None:
    watch = Watch()
    watch.wait(10 * SILENCE)
    assert watch.cause() is None


@pytest.mark.parametrize("cpu", [0.001, 0.01, 1.0])
def test_as_long_as_it_computes_it_is_slow(cpu: float) -> None:
    """A prefill on a GPU computes little on the host: a hundredth of a second in ten is enough."""
    watch = owing()
    watch.wait(PATIENCE - 2, cpu=cpu)
    assert watch.cause() is None


@pytest.mark.parametrize("sign", ["gpu", "reads"])
def test_the_gpu_and_the_disk_are_signs_of_life_too(sign: str) -> None:
    watch = owing()
    watch.vitals = replace(watch.vitals, gpu=0.0)
    for second in range(300):
        grown = {"gpu": second * 0.01} if sign == "gpu" else {"reads": second << 20}
        watch.vitals = replace(watch.vitals, **grown)
        watch.wait(1)
    assert watch.cause() is None
    watch.wait(SILENCE)
    assert watch.cause() is Cause.SILENT


def test_where_nobody_tells_whether_it_computes_only_the_time_for_a_first_byte_counts() -> None:
    watch = owing()
    watch.vitals = Vitals(listens=True)
    for _ in range(int(PATIENCE) - 2):
        watch.ran += 1.0
        watch.suspicion.look(watch.ran, watch.vitals, watch.use, PATIENCE)
    assert watch.cause() is None


def test_one_that_computes_for_ever_is_sure_after_twice_the_time_for_a_first_byte() -> None:
    watch = owing()
    watch.wait(PATIENCE, cpu=1.0)
    assert watch.cause() is Cause.SILENT
    assert watch.suspicion.why.endswith("its process computes")
    assert not watch.asks(), "perhaps it is about to answer"
    watch.wait(PATIENCE, cpu=1.0)
    assert watch.asks()
    watch.wait(PATIENCE - 1, cpu=1.0)
    assert not watch.suspicion.hung
    watch.wait(1, cpu=1.0)
    assert watch.suspicion.hung


def test_a_byte_to_anybody_ends_it_and_whoever_leaves_does_not() -> None:
    watch = owing(2)
    watch.wait(SILENCE)
    assert watch.asks()
    watch.use = replace(watch.use, active=0, owed=0)
    watch.wait(5)
    assert watch.cause() is Cause.SILENT
    watch.use = Use(active=1, owed=1, received=1)
    watch.wait(1)
    assert watch.cause() is None
    assert watch.suspicion.asked_at is None, "nobody wants to know any more"


def test_requests_that_fail_in_a_row_are_asked_about_once_it_is_free() -> None:
    watch = Watch(use=Use(active=1, owed=1, faults=FAULTS - 1, fault="it answered 500"))
    watch.wait(5, cpu=1.0)
    assert watch.cause() is None
    watch.use = replace(watch.use, faults=FAULTS)
    watch.wait(1, cpu=1.0)
    assert watch.cause() is Cause.FAILING
    assert watch.suspicion.why == "3 requests in a row failed: it answered 500"
    assert not watch.asks(), "it computes for somebody else"
    watch.wait(QUIET)
    assert watch.asks()
    for _ in range(WRONG - 1):
        assert not watch.suspicion.wrong("it answers 500")
    assert watch.suspicion.wrong("it answers 500")
    assert watch.suspicion.hung.endswith("and a small request of our own fails: it answers 500")


def test_one_that_answers_is_not_asked_again_for_a_while_and_each_time_later() -> None:
    watch = Watch(use=Use(faults=FAULTS, fault="it answered 500"))
    asked = []
    for _ in range(1000):
        watch.use = replace(watch.use, faults=watch.use.faults + 1)
        watch.wait(1)
        if watch.asks():
            asked.append(watch.ran)
            watch.suspicion.answered(watch.ran)
    pauses = [round(later - sooner) for sooner, later in itertools.pairwise(asked)]
    assert pauses == [PAUSE_FIRST, 2 * PAUSE_FIRST, 4 * PAUSE_FIRST, 8 * PAUSE_FIRST]
    # A good answer in between begins the count anew.
    watch.use = replace(watch.use, faults=0, answered=watch.use.answered + 1)
    watch.wait(1000)
    assert watch.cause() is None
    watch.use = replace(watch.use, faults=FAULTS)
    watch.wait(1)
    assert watch.asks()


def test_faults_that_were_forgiven_do_not_count_again() -> None:
    watch = Watch(use=Use(faults=FAULTS, fault="x"))
    watch.wait(1)
    assert watch.asks()
    watch.suspicion.answered(watch.ran)
    watch.wait(10 * PAUSE_FIRST)
    assert watch.cause() is None


def test_a_stopped_process_is_sure_after_a_while_and_goes_on_as_if_nothing_were() -> None:
    watch = owing()
    watch.vitals = replace(watch.vitals, stopped=12)
    watch.wait(1)
    assert watch.suspicion.why == "pid 12 is stopped by a signal; `kill -CONT 12` lets it go on"
    assert not watch.asks()
    watch.wait(STOPPED - 2)
    assert not watch.suspicion.hung
    watch.vitals = replace(watch.vitals, stopped=None)
    watch.wait(SILENCE - 1)
    assert watch.cause() is None, "what it owes, it owes from now on"
    watch.vitals = replace(watch.vitals, stopped=12)
    watch.wait(STOPPED + 1)
    assert watch.suspicion.hung.endswith("12 was stopped by a signal, and nobody let it go on within 30s")


def test_nobody_is_ended_under_a_debugger() -> None:
    watch = owing()
    watch.vitals = replace(watch.vitals, stopped=12, traced=True)
    watch.wait(10 * STOPPED)
    assert watch.suspicion.why == "pid 12 is held by a debugger"
    assert not watch.suspicion.hung


def test_a_port_that_stays_closed_is_sure() -> None:
    watch = Watch(vitals=Vitals(listens=False))
    watch.wait(1)
    assert watch.cause() is Cause.CLOSED
    watch.wait(CLOSED)
    assert "does not listen on its port" in watch.suspicion.hung
    unknown = Watch(vitals=Vitals(listens=None))
    unknown.wait(10)
    assert unknown.suspicion.cause is None


def test_after_a_time_in_which_we_did_not_run_all_waits_begin_anew() -> None:
    for begin in (owing(), Watch(vitals=Vitals(stopped=12)), Watch(vitals=Vitals(listens=False))):
        begin.wait(2)
        begin.suspicion.restart(begin.ran)
        begin.wait(2)
        assert not begin.suspicion.hung
    watch = owing()
    watch.wait(SILENCE)
    assert watch.asks()
    watch.wait(SILENCE - 1)
    watch.suspicion.restart(watch.ran)
    watch.wait(SILENCE - 1)
    assert not watch.suspicion.hung


def test_one_that_is_only_watched_is_told_and_never_sure() -> None:
    for vitals in (Vitals(stopped=12), Vitals(listens=False)):
        watch = Watch(vitals=vitals)
        watch.wait(100, acts=False)
        assert watch.cause() is not None
        assert not watch.suspicion.hung


# -- laws --------------------------------------------------------------------------------------------------------------

SECONDS = st.tuples(
    st.integers(1, 90),
    st.sampled_from([0.0, 0.0, 0.001, 0.5]),  # computed in each
    st.integers(0, 4),  # requests that it owes something
    st.sampled_from([0, 0, 1, 2, 5]),  # more failed
    st.booleans(),  # late: nobody ran before
)


@given(st.lists(SECONDS, max_size=25), st.sampled_from([5.0, 60.0, 600.0]), st.integers(0, int(SILENCE) - 1))
@settings(deadline=None)
def test_one_that_answers_our_request_in_time_is_never_given_up(
    story: list[tuple[int, float, int, int, bool]], patience: float, takes: int
) -> None:
    """A law: whatever clients do and however slow it is for them, its answer to us is what counts."""
    watch = Watch(patience=patience)
    for seconds, cpu, owed, failed, late in story:
        if late:
            watch.suspicion.restart(watch.ran)
        watch.use = replace(watch.use, active=owed, owed=owed, faults=watch.use.faults + failed, fault="x")
        for _ in range(seconds):
            watch.wait(1, cpu=cpu)
            watch.asks()
            at = watch.suspicion.asked_at
            if at is not None and watch.ran - at >= takes:
                watch.suspicion.answered(watch.ran)
            assert not watch.suspicion.hung


@given(
    st.lists(SECONDS, max_size=10), st.sampled_from([5.0, 60.0, 600.0]), st.sampled_from([0.0, 0.001, 0.5])
)
@settings(deadline=None)
def test_one_that_answers_nobody_is_given_up_in_time(
    story: list[tuple[int, float, int, int, bool]], patience: float, cpu: float
) -> None:
    """A law: as long as somebody waits for it, three times what a first byte may take is the most."""
    watch = Watch(patience=patience)
    for seconds, computed, owed, _, _ in story:
        watch.use = replace(watch.use, active=owed, owed=owed)
        watch.wait(seconds, cpu=computed, bytes_come=True)
    watch.use = replace(watch.use, active=1, owed=1)
    bound = 3 * max(patience, SILENCE) + 5
    for _ in range(int(bound)):
        watch.wait(1, cpu=cpu)
        watch.asks()
    assert watch.suspicion.hung
