"""Damaged headers, 20,000 of them: each is read or refused, soon, in little memory, and never in another way."""

import io
import random
import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from raw_gguf import F32, I32, U16, U32, RawTensor, array, header, nested, scalar, string, texts
from reconciler.memory.gguf import Header, WeightsError, parse, tensor_bytes

RUNS = 20_000
#: Numbers that break careless arithmetic.
EDGES = (0, 1, 2, 31, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
#: Words of the checks that the damage must reach, each of them.
CHECKS = (
    "within its header",
    "became shorter",
    "a tensor's name of",
    "a key of",
    "more than the file holds",
    "dimensions",
    "has value type",
    "are there",
    "has the shape",
    "cannot describe",
    "begins at byte",
    "overlap",
    "lists values of unknown type",
    "is not GGUF",
    "more than 64 MiB",
    "GGUF version",
    "lists of millions",
    "two tensors",
)


def tiny() -> bytes:
    keys = {
        "general.architecture": string("llama"),
        "general.alignment": scalar(U32, 64),
        "llama.block_count": scalar(U32, 2),
        "llama.rope.freq_base": scalar(F32, 1e4),
        "llama.attention.head_count_kv": array(I32, [8, 0]),
    }
    return header(keys, [RawTensor("token_embd.weight", (256, 4), 12), RawTensor("b", (32,), 0, 576)])


def split() -> bytes:
    keys = {"split.no": scalar(U16, 1), "split.count": scalar(U16, 3), "split.tensors.count": scalar(I32, 4)}
    return header(keys, [RawTensor(f"t{i}", (64, 2), 30, 256 * i) for i in range(4)], version=2)


def vocabulary() -> bytes:
    words = [f"word{i}" for i in range(300)]
    keys = {
        "tokenizer.ggml.tokens": texts(words),
        "tokenizer.ggml.scores": array(F32, [0.5] * 300),
        "tokenizer.chat_template": string("{% for message in messages %}" * 20),
    }
    return header(keys, [RawTensor("t", (32,), 8)])


def experts() -> bytes:
    tensors = [RawTensor(f"blk.{i}.ffn_gate_exps.weight", (256, 8, 4), 12, 4608 * i) for i in range(60)]
    return header({"llama.expert_count": scalar(U32, 4)}, tensors)


def arrays() -> bytes:
    return header({f"k{depth}": nested(depth) for depth in range(1, 5)}, [RawTensor("t", (7,), 99)])


SEEDS = (tiny(), split(), vocabulary(), experts(), arrays())


def damaged(raw: bytes, dice: random.Random) -> bytes:
    """Return `raw` cut, with bytes or whole numbers overwritten, or with a piece repeated, left out or moved."""
    kind = dice.randrange(6)
    at = dice.randrange(len(raw))
    if kind == 0:
        return raw[:at]
    changed = bytearray(raw)
    if kind == 1:
        for _ in range(dice.randint(1, 8)):
            changed[dice.randrange(len(raw))] = dice.randrange(256)
    elif kind == 2:
        width, code = dice.choice(((4, "<I"), (8, "<Q")))
        value = dice.choice(EDGES) % (1 << 8 * width)
        changed[at : at + width] = struct.pack(code, value)
    elif kind == 3:
        changed[at:at] = raw[at : at + dice.randint(1, 200)]
    elif kind == 4:
        del changed[at : at + dice.randint(1, 64)]
    else:
        changed[dice.randrange(24, len(raw)) :] = raw[at:]
    return bytes(changed)


def cases() -> Iterator[tuple[bytes, int]]:
    """Yield headers with the size of the file that they are said to begin."""
    dice = random.Random(20260917)  # the same ones each time
    for number in range(RUNS):
        raw = damaged(SEEDS[number % len(SEEDS)], dice)
        yield raw, len(raw) + dice.choice((0, 64, 300_000, 1 << 40))


def judged(raw: bytes, size: int) -> Header | str:
    try:
        return parse(io.BytesIO(raw), size)
    except WeightsError as error:
        return str(error)


def sane(found: Header, size: int) -> bool:
    ends = [found.data_offset + tensor.offset + (tensor.size or 0) for tensor in found.tensors]
    held = tensor_bytes(found.tensors, size - found.data_offset)
    return max(ends, default=0) <= size and 0 <= held <= size and len(found.oddities) <= 17


def largest_resident() -> int:
    """Return the most bytes this process ever had in memory."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def check(found: Header | str) -> str:
    """Return which check ended the reading."""
    if isinstance(found, Header):
        return "read"
    return next((words for words in CHECKS if words in found), "other")


@pytest.mark.parametrize("raw", SEEDS)
def test_the_seeds_are_right(raw: bytes) -> None:
    found = judged(raw, 1 << 20)
    assert isinstance(found, Header)
    assert found.keys
    assert found.tensors


def test_no_damage_crashes_hangs_or_fills_the_memory() -> None:
    before = largest_resident()
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for raw, size in cases():
        start = time.thread_time()
        found = judged(raw, size)
        slowest = max(slowest, time.thread_time() - start)
        if isinstance(found, Header):
            assert sane(found, size)
        else:
            assert found
            assert "\n" not in found
            assert len(found) < 500
        outcomes[check(found)] += 1
    assert sum(outcomes.values()) == RUNS
    assert slowest < 1
    assert largest_resident() - before < 100 << 20
    # The damage must reach all the checks, not only the first ones.
    assert set(outcomes) == {*CHECKS, "read", "other"}
    assert outcomes["other"] < RUNS // 20
    assert outcomes["read"] > RUNS // 20
