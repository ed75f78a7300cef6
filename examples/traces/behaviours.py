"""What people and programs do on a day. Each function returns a behaviour; what it is given says how much of it.

`daily` is the number of sessions on an ordinary day, `hours` when they may begin.
"""

from collections.abc import Sequence
from typing import Final

from examples.traces.days import DAY, HOUR, MINUTE, Behaviour, Day, Session

Hours = tuple[float, float]
WORK: Final[Hours] = (8.5, 18.0)
EVENING: Final[Hours] = (19.0, 23.5)
ALL_DAY: Final[Hours] = (0.0, 24.0)


def chats(models: Sequence[str], daily: float, hours: Hours = WORK, who: str = "chat") -> Behaviour:
    """Conversations with one of the models each, a person reading and typing in between."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            model = day.draw.choice(models)
            talk(day, day.session(who, day.between(hours)), model, day.turns(6))

    return behave


def talk(day: Day, session: Session, model: str, turns: int, answer: float = 340.0) -> None:
    """Let one conversation happen; half of the answers are longer than `answer` tokens."""
    for _ in range(turns):
        session.ask(model, day.tokens(280, 0.8), day.tokens(answer, 0.8, 4_000), day.about(38, 0.95, 900))


def coding(
    model: str, daily: float, complete: str | None = None, hours: Hours = WORK, turns: float = 25.0
) -> Behaviour:
    """Sessions of a coding assistant; with `complete`, bursts of completions while the person types."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("code", day.between(hours))
            for _ in range(day.turns(turns, 110)):
                session.ask(
                    model, day.tokens(1200, 1.1), day.tokens(245, 0.95, 4_200), day.about(6.2, 1.25, 600)
                )
                if complete is not None and day.draw.random() < 0.5:
                    _type(day, session, complete)

    return behave


def _type(day: Day, session: Session, complete: str) -> None:
    for _ in range(day.turns(7, 40)):
        session.ask(
            complete, day.tokens(1100, 0.5, 8_000), day.tokens(32, 0.6, 200), day.about(4.0, 0.9, 120)
        )


def agents(planner: str, coder: str, daily: float, hours: Hours = WORK) -> Behaviour:
    """Agents that let one model plan and another do some steps of it, over and over."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("agent", day.between(hours))
            for _ in range(day.turns(7, 25)):
                session.ask(planner, day.tokens(2000, 0.5, 13_000), day.tokens(280, 0.5), day.about(3, 0.6))
                for _ in range(day.draw.randint(1, 5)):
                    session.ask(coder, day.tokens(2100, 0.6, 13_000), day.tokens(330, 0.6), day.about(3, 0.6))

    return behave


def fan_outs(planner: str, workers: Sequence[str], daily: float, hours: Hours = WORK) -> Behaviour:
    """An orchestrator thinks, hands out pieces of work to several models at once, and puts together what they say."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            at = day.between(hours)
            for _ in range(day.draw.randint(1, 3)):
                at = _fan_out(day, at, planner, workers)

    return behave


def _fan_out(day: Day, at: float, planner: str, workers: Sequence[str]) -> float:
    """Let one round happen; return when its result is there, were no model ever loaded."""
    planning = day.session("plan", at)
    planning.ask(planner, day.tokens(2500, 0.4), day.tokens(310, 0.4))
    begin, ends = planning.now - day.begin, [planning.now]
    for _ in range(day.draw.randint(3, 9)):
        worker = day.session("work", begin + day.draw.uniform(0.0, 1.5))
        model = day.draw.choice(workers)
        for _ in range(day.draw.randint(1, 3)):
            worker.ask(model, day.tokens(1450, 0.5), day.tokens(380, 0.5), 2.0)
        ends.append(worker.now)
    return max(ends) - day.begin + 5.0


def questions(embed: str, rerank: str, chat: str, daily: float, hours: Hours = WORK) -> Behaviour:
    """Questions about documents: the question is embedded, finds are ranked, and a model reads them and answers."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("rag", day.between(hours))
            for _ in range(day.turns(3.5, 15)):
                session.ask(embed, 60, 0, day.about(65, 0.6, 600))
                session.ask(rerank, 6000, 0, 0.05)
                session.ask(chat, day.tokens(3700, 0.4, 12_000), day.tokens(290, 0.6, 1_500), 0.05)

    return behave


def ingests(embed: str, daily: float, hours: Hours = WORK) -> Behaviour:
    """Documents are taken in: many pieces are embedded, one right after the other."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("ingest", day.between(hours))
            for _ in range(day.turns(50, 170)):
                session.ask(embed, day.tokens(5900, 0.5, 35_000), 0, day.about(0.4, 0.5))

    return behave


def recordings(asr: str, writer: str, hours: Sequence[int], minute: float = 3.0) -> Behaviour:
    """At fixed hours what was recorded is transcribed, and a model sums it up."""

    def behave(day: Day) -> None:
        for hour in hours:
            at = hour * HOUR + day.draw.gauss(minute, 1.0) * MINUTE
            session = day.session("asr", max(0.0, at))
            for _ in range(day.draw.randint(4, 14)):
                session.ask(asr, day.tokens(3100, 0.4, 12_000), day.tokens(300, 0.4), 0.5)
            session.ask(writer, day.tokens(2400, 0.4), day.tokens(350, 0.4), 1.0)

    return behave


def pictures(model: str, daily: float, hours: Hours = EVENING) -> Behaviour:
    """Pictures are made, looked at, and made again."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("img", day.between(hours))
            for _ in range(day.turns(8, 40)):
                session.ask(model, 80, day.draw.randint(14, 32), day.about(8.5, 0.95, 200))

    return behave


def odd_calls(models: Sequence[str], daily: float, hours: Hours = (8.0, 23.9)) -> Behaviour:
    """Single calls to a model that is not used again soon: chosen by mistake, or only tried."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("odd", day.between(hours))
            session.ask(day.draw.choice(models), day.tokens(380, 0.6), day.tokens(110, 0.5))

    return behave


def batches(model: str, hour: float, calls: int = 80) -> Behaviour:
    """Every night at the same hour a job calls one model many times in a row."""

    def behave(day: Day) -> None:
        session = day.session("batch", hour * HOUR + day.draw.uniform(0.0, 60.0))
        for _ in range(round(calls * day.draw.uniform(0.7, 1.2))):
            session.ask(model, day.tokens(1500, 0.6, 7_000), day.tokens(200, 0.6, 800), 0.3)

    return behave


def heartbeats(model: str, every: float) -> Behaviour:
    """Every so many seconds something is asked by a program, day and night."""

    def behave(day: Day) -> None:
        for beat in range(int(DAY / every)):
            session = day.session("beat", beat * every + day.draw.uniform(0.0, 20.0))
            session.ask(model, 300, 40)

    return behave


def memoryless(models: Sequence[str], daily: float) -> Behaviour:
    """Short sessions with any of the models at any time, whatever happened before."""

    def behave(day: Day) -> None:
        for _ in range(day.some(daily)):
            session = day.session("any", day.between(ALL_DAY))
            model = day.draw.choice(models)
            for _ in range(day.turns(3.5, 25)):
                session.ask(
                    model, day.tokens(290, 0.7, 2_000), day.tokens(120, 0.7, 1_000), day.about(40, 0.9)
                )

    return behave


def two_at_once(first: str, second: str, daily: float, hours: Hours = WORK) -> Behaviour:
    """Two people work on the same day, one session after another each, and each with a model of their own."""

    def behave(day: Day) -> None:
        pause = (hours[1] - hours[0]) * HOUR / daily / 2
        for who in ("one", "two"):
            at = hours[0] * HOUR + day.draw.expovariate(1 / pause)
            while at < hours[1] * HOUR:
                session = day.session(who, at)
                if who == "one":
                    talk(day, session, first, day.turns(8, 40), 190.0)
                else:
                    _work(day, session, second)
                at = session.now - day.begin + day.draw.expovariate(1 / pause)

    return behave


def _work(day: Day, session: Session, model: str) -> None:
    for _ in range(day.turns(45, 250)):
        session.ask(model, day.tokens(1180, 0.9), day.tokens(250, 0.9, 3_500), day.about(9, 1.25, 600))


def until(day_number: int, before: Behaviour, after: Behaviour) -> Behaviour:
    """Change a habit: one behaviour on the days before, another from that day on."""

    def behave(day: Day) -> None:
        (before if day.number < day_number else after)(day)

    return behave


def on_weekdays(behaviour: Behaviour, otherwise: Behaviour | None = None) -> Behaviour:
    """Leave a behaviour out on week-ends, or do something else instead."""

    def behave(day: Day) -> None:
        chosen = otherwise if day.weekend else behaviour
        if chosen is not None:
            chosen(day)

    return behave
