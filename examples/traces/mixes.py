"""Who does what at desks of many kinds.

Each mix is given a function that makes more or less of each habit than an ordinary desk has: two desks of a kind are
not alike.
"""

from collections.abc import Callable, Sequence

from examples.traces import behaviours as b
from examples.traces.catalogue import TWELVE
from examples.traces.days import Behaviour

Mix = Sequence[tuple[str, Behaviour]]
Much = Callable[[float], float]


def chat_code(much: Much) -> Mix:
    return [
        ("chat", b.on_weekdays(b.chats(["chat-70b"], much(15), (8.5, 23.4)))),
        ("code", b.on_weekdays(b.coding("coder-30b", much(9), hours=(8.5, 23.0)))),
        ("img", b.pictures("image", much(2.8))),
        ("rag", b.questions("embed", "rerank", "chat-70b", much(4.4))),
    ]


def rag(much: Much) -> Mix:
    return [
        ("rag", b.questions("embed", "rerank", "chat-70b", much(20))),
        ("ingest", b.ingests("embed", much(9))),
        ("chat", b.chats(["coder-30b"], much(8))),
        ("img", b.pictures("image", much(8), (9.0, 22.8))),
    ]


def agent(much: Much) -> Mix:
    return [
        ("agent", b.agents("chat-70b", "coder-30b", much(9), (9.0, 22.7))),
        ("chat", b.chats(["coder-30b"], much(7))),
        ("rag", b.questions("embed", "rerank", "coder-30b", much(5))),
    ]


def speech(much: Much) -> Mix:
    return [
        ("asr", b.recordings("asr", "chat-30b", range(7, 22), 6.0)),
        ("chat", b.chats(["chat-30b", "chat-30b", "vision-12b"], much(18), (8.2, 22.9))),
        ("img", b.pictures("image", much(7), (10.0, 22.8))),
        ("odd", b.odd_calls(["big-120b"], much(4))),
    ]


def mixed(much: Much) -> Mix:
    return [
        ("agent", b.agents("plan-70b", "coder-30b", much(2.6))),
        ("asr", b.recordings("asr", "chat-14b", range(8, 20))),
        ("chat", b.chats(["chat-30b", "chat-30b", "tts", "vision-12b"], much(22), (7.5, 23.4))),
        ("code", b.coding("coder-30b", much(12), "fim-7b", turns=11)),
        ("img", b.pictures("image", much(2.2))),
        ("ingest", b.ingests("embed", much(6))),
        ("odd", b.odd_calls(["big-120b"], much(5.6))),
        ("rag", b.questions("embed", "rerank", "chat-30b", much(10))),
    ]


def team(much: Much) -> Mix:
    return [
        ("chat", b.chats(["chat-30b", "chat-30b", "chat-30b", "plan-70b"], much(36))),
        ("code", b.coding("coder-30b", much(17))),
        ("orch", b.fan_outs("plan-70b", ["vision-12b", "chat-14b", "coder-30b"], much(7))),
        ("img", b.pictures("image", much(3), (10.0, 18.0))),
        ("ingest", b.ingests("embed", much(7))),
        ("odd", b.odd_calls(["big-120b"], much(7), (9.0, 17.0))),
        ("rag", b.questions("embed", "rerank", "chat-30b", much(17))),
    ]


def night(much: Much) -> Mix:
    return [
        ("batch", b.batches("big-120b", 1.0, round(much(100)))),
        ("later", b.batches("vision-12b", 4.0, round(much(60)))),
        ("beat", b.heartbeats("chat-14b", 1800.0)),
        ("asr", b.recordings("asr", "chat-14b", range(8, 19))),
        ("chat", b.chats(["chat-30b", "chat-14b"], much(17), (8.4, 23.5))),
        ("code", b.on_weekdays(b.coding("coder-30b", much(7)))),
        ("img", b.pictures("image", much(4.5))),
    ]


def wrong(much: Much) -> Mix:
    wrong = ["plan-70b", "big-120b", "image", "tts", "vision-12b", "chat-14b"]
    return [
        ("chat", b.chats(["chat-30b"], much(12), (8.1, 23.9))),
        ("code", b.coding("coder-30b", much(7))),
        ("odd", b.odd_calls(wrong, much(29))),
        ("rag", b.questions("embed", "rerank", "chat-30b", much(8.5))),
    ]


def uniform(much: Much) -> Mix:
    return [("any", b.memoryless(sorted(TWELVE), much(72)))]


def pingpong(much: Much) -> Mix:
    return [
        ("two", b.two_at_once("chat-70b", "coder-30b", much(18))),
        ("chat", b.chats(["chat-70b", "chat-70b", "image"], much(6))),
    ]


def drift(much: Much) -> Mix:
    """After three days the team changes its models for others."""
    return [
        ("chat", b.until(3, b.chats(["chat-30b"], much(18)), b.chats(["plan-70b"], much(14)))),
        ("code", b.until(3, b.coding("coder-30b", much(8)), b.coding("big-120b", much(5)))),
        ("img", b.until(3, b.pictures("image", much(5)), b.pictures("image", much(5), (9.0, 12.0)))),
        ("rag", b.questions("embed", "rerank", "chat-30b", much(8))),
    ]


def weekend(much: Much) -> Mix:
    return [
        ("code", b.on_weekdays(b.coding("coder-30b", much(10), "fim-7b", turns=11))),
        ("chat", b.on_weekdays(b.chats(["chat-30b", "plan-70b"], much(16)), b.chats(["chat-14b"], much(6)))),
        ("img", b.on_weekdays(b.pictures("image", much(2)), b.pictures("image", much(12), (10.0, 23.0)))),
        ("asr", b.on_weekdays(b.recordings("asr", "chat-14b", (9, 11, 14, 16)))),
        ("batch", b.batches("big-120b", 2.0, round(much(60)))),
    ]


def fan_out(much: Much) -> Mix:
    return [
        ("orch", b.fan_outs("plan-70b", ["chat-14b", "coder-30b", "vision-12b", "chat-30b"], much(24))),
        ("agent", b.agents("plan-70b", "coder-30b", much(4))),
        ("chat", b.chats(["chat-30b"], much(12))),
    ]


def heartbeat(much: Much) -> Mix:
    return [
        ("beat", b.heartbeats("chat-30b", 3600.0)),
        ("often", b.heartbeats("vision-12b", 900.0)),
        ("chat", b.chats(["chat-30b"], much(12), (8.0, 23.0))),
        ("img", b.pictures("image", much(9), (9.0, 23.0))),
        ("odd", b.odd_calls(["big-120b"], much(8))),
    ]
