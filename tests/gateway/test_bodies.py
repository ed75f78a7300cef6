"""Request bodies: read within limits, in memory that goes back; the fields the gateway needs, and another model."""

import json
import os
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.gateway.body import forms
from reconciler.gateway.body.bodies import LARGE, Body, ClientGoneError, read_body
from reconciler.gateway.body.json_fields import read_fields, read_object, with_model, write_object
from reconciler.gateway.body.room import STEP_BYTES, Pace, Room
from reconciler.gateway.errors import ApiError
from support import wait_for_async

MIB = 1 << 20


class Source:
    """What a server's `receive` gives: pieces, then the end or a client that is gone."""

    def __init__(self, pieces: Sequence[bytes], *, gone: bool = False) -> None:
        self.left = list(pieces)
        self.gone = gone
        self.asked = 0

    async def __call__(self) -> dict[str, Any]:
        """Return the next message."""
        self.asked += 1
        if not self.left:
            return {
                "type": "http.disconnect" if self.gone else "http.request",
                "body": b"",
                "more_body": False,
            }
        body = self.left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.left) or self.gone}


def length(size: int) -> list[tuple[bytes, bytes]]:
    """Return the header."""
    return [(b"content-length", str(size).encode())]


def cut(data: bytes, size: int) -> list[bytes]:
    """Return `data` in pieces."""
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("size", [0, 1, 70_000, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE])
@pytest.mark.anyio
async def test_a_body_arrives_whole_and_its_room_is_given_back(size: int, declared: bool) -> None:
    data = os.urandom(size)
    room = Room()
    headers = length(size) if declared else []
    body = await read_body(headers, Source(cut(data, 65536)), 4 * LARGE, room, text=False)
    assert bytes(body.data) == data
    assert room.used == body.held
    assert body.held in (0, size)
    body.release()
    assert (room.used, len(body.data)) == (0, 0)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.anyio
async def test_a_large_body_is_sent_in_pieces_and_given_back_after_the_last(declared: bool) -> None:
    data = os.urandom(3 * LARGE + 5)
    room = Room()
    headers = length(len(data)) if declared else []
    body = await read_body(headers, Source(cut(data, 300_000)), 4 * LARGE, room, text=False)
    assert room.used == len(data)
    assert b"".join([piece async for piece in body.pieces()]) == data
    assert room.used == 0


@pytest.mark.parametrize(
    ("headers", "pieces", "code"),
    [
        (length(2 * MIB + 1), [], "request_too_large"),
        ([], [b"x" * MIB, b"x" * MIB, b"x"], "request_too_large"),
        ([], [b"x" * (2 * MIB + 1)], "request_too_large"),
        (length(3), [b"ab\xff"], "invalid_json"),
        (length(2 * MIB), [b"x" * (2 * MIB - 1), b"\xff"], "invalid_json"),
        (length(2 * MIB), [b"x" * (2 * MIB - 1), b"\xc3"], "invalid_json"),
    ],
)
@pytest.mark.anyio
async def test_what_is_refused_leaves_no_room_taken(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes], code: str
) -> None:
    room = Room()
    with pytest.raises(ApiError) as caught:
        await read_body(headers, Source(pieces), 2 * MIB, room, text=True)
    assert (caught.value.code, room.used) == (code, 0)


@pytest.mark.anyio
async def test_a_client_that_leaves_in_the_middle_gives_the_room_back() -> None:
    room = Room()
    for headers in ([], length(2 * MIB)):
        with pytest.raises(ClientGoneError):
            await read_body(headers, Source([b"x" * MIB], gone=True), 2 * MIB, room, text=True)
        assert room.used == 0


@pytest.mark.anyio
async def test_more_large_bodies_than_fit_are_not_read_until_there_is_room() -> None:
    room = Room()
    held = [await read_body(length(MIB), Source([b"x" * MIB]), MIB, room, text=True) for _ in range(4)]
    source = Source(cut(b"x" * MIB, 65536))
    done: list[Body] = []

    async def read() -> None:
        done.append(await read_body(length(MIB), source, MIB, room, text=True))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert (source.asked, done) == (1, [])
        small = await read_body(length(5), Source([b"hello"]), MIB, room, text=True)
        assert small.data == b"hello"
        held[1].release()
        await wait_for_async(lambda: len(done) == 1, 2, "the body to be read")
    for body in [*held, *done]:
        body.release()
    assert room.used == 0


@pytest.mark.anyio
async def test_a_body_that_finds_no_room_is_told_so() -> None:
    room = Room(seconds=0.01)
    held = room.share(4 * MIB, MIB)
    held.give(4 * MIB - STEP_BYTES)
    held.keep(held.held)
    late = room.share(MIB, MIB)
    with pytest.raises(ApiError) as caught:
        await late.grow(STEP_BYTES + 1)
    late.keep(0)
    assert (caught.value.code, caught.value.status, caught.value.retry_after) == ("too_many_bodies", 503, 5)
    last = room.share(STEP_BYTES, MIB)
    await last.grow(1)  # who gave up keeps nobody behind it waiting
    assert room.used == 4 * MIB


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.anyio
async def test_bodies_that_do_not_come_take_no_room(declared: bool) -> None:
    """Others are read at once."""
    room, never = Room(seconds=0.01), anyio.Event()
    limit = 4 * LARGE

    class Slow(Source):
        async def __call__(self) -> dict[str, Any]:
            if not self.left:
                await never.wait()
            return await super().__call__()

    async def dawdle() -> None:
        headers = length(limit) if declared else []
        first = [b"x"] if declared else [b"x" * LARGE]
        await read_body(headers, Slow(first, gone=True), limit, room, text=False)

    async with anyio.create_task_group() as group:
        for _ in range(8 if declared else 4):
            group.start_soon(dawdle)
        await anyio.wait_all_tasks_blocked()
        data = os.urandom(limit)
        for _ in range(3):
            body = await read_body(length(limit), Source(cut(data, 65536)), limit, room, text=False)
            assert bytes(body.data) == data
            body.release()
        group.cancel_scope.cancel()
    assert room.used == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(LARGE, 2 * LARGE), min_size=1, max_size=20), st.integers(0, 3))
@pytest.mark.anyio
async def test_bodies_that_come_at_once_all_come_to_their_end(sizes: list[int], pauses: int) -> None:
    """All of them have begun before any has ended, and together they are larger than the room."""
    room, limit, most = Room(), 2 * LARGE, 0

    class Yielding(Source):
        async def __call__(self) -> dict[str, Any]:
            nonlocal most
            for _ in range(pauses):
                await anyio.lowlevel.checkpoint()
            most = max(most, room.used)
            return await super().__call__()

    async def one(size: int) -> None:
        source = Yielding(cut(bytes(size), STEP_BYTES))
        body = await read_body(length(size), source, limit, room, text=False)
        assert len(body.data) == size
        await anyio.lowlevel.checkpoint()
        body.release()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for size in sizes:
                group.start_soon(one, size)
    assert room.used == 0
    assert most <= 4 * limit


@pytest.mark.parametrize("seconds", [0.0, 0.02])
@pytest.mark.anyio
async def test_a_large_body_must_not_come_too_slowly(seconds: float) -> None:
    room = Room(pace=Pace(grace_seconds=0.1, bytes_per_second=1 << 40))

    class Slow(Source):
        async def __call__(self) -> dict[str, Any]:
            await anyio.sleep(seconds)
            return await super().__call__()

    source = Slow(cut(bytes(LARGE), LARGE // 64))
    if not seconds:
        assert len((await read_body(length(LARGE), source, LARGE, room, text=False)).data) == LARGE
        return
    with pytest.raises(ApiError, match="less than") as caught:
        await read_body(length(LARGE), source, LARGE, room, text=False)
    assert (caught.value.code, room.used, len(source.left) > 0) == ("request_timeout", 0, True)
    assert (b"connection", b"close") in caught.value.extra


@pytest.mark.parametrize(
    ("came", "waited", "late"),
    [(0, 29, False), (0, 31, True), (64 * 1024 * 40, 39, False), (64 * 1024 * 40, 41, True)],
)
def test_what_is_too_slow(came: int, waited: float, late: bool) -> None:
    caught = None
    try:
        Pace().check(came, waited)
    except ApiError as error:
        caught = error
    assert (caught is not None) == late


@pytest.mark.anyio
async def test_ten_bodies_of_60_mb_leave_no_memory_behind() -> None:
    process = psutil.Process()
    room = Room()
    size = 60_000_000
    piece = b'"' * 65536
    before = process.memory_info().rss
    most = 0

    async def one() -> None:
        nonlocal most
        body = await read_body(
            length(size), Source(cut(piece, 65536) * (size // 65536)), size, room, text=True
        )
        most = max(most, process.memory_info().rss - before)
        await anyio.lowlevel.checkpoint()
        body.release()

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)
    assert room.used == 0
    assert size < most < 5 * size
    assert process.memory_info().rss - before < 8_000_000


JSON = [
    (b'{"model":"a","x":{"model":"a"}}', b'{"model":"Z","x":{"model":"a"}}'),
    (b'{"x":{"model":"a"},"model":"a"}', b'{"x":{"model":"a"},"model":"Z"}'),
    (b'{ "model"\n:\t"a" , "y":1.50 }', b'{ "model"\n:\t"Z" , "y":1.50 }'),
    (b'{"s":"\\"model\\":\\"a\\"","model":"a"}', b'{"s":"\\"model\\":\\"a\\"","model":"Z"}'),
    (b'{"s":["model","a"],"model":"a"}', b'{"s":["model","a"],"model":"Z"}'),
    (b'{"s":"model","model":"a","t":"model"}', b'{"s":"model","model":"Z","t":"model"}'),
    (b'{"model":"a","model":"a"}', b'{"model":"Z","model":"Z"}'),
    (b'{"model":"\\u0061"}', b'{"model":"Z"}'),
    (b'{"mod\\u0065l":"a","x":{"model":"b"}}', b'{"model":"Z","x":{"model":"b"}}'),
]


@pytest.mark.parametrize(("body", "wanted"), JSON)
def test_another_model_is_put_where_the_model_was_and_nowhere_else(body: bytes, wanted: bytes) -> None:
    assert read_fields(body).model == "a"
    made = with_model(body, "Z", "a")
    assert json.loads(bytes(made)) == json.loads(wanted)
    if b"mod\\u0065l" not in body:
        assert made == wanted


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.just("model"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("model"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=4), values, max_size=3), st.text(min_size=1), st.text(min_size=1))
def test_any_object_keeps_everything_but_its_model(rest: dict[str, Any], was: str, name: str) -> None:
    items = [*rest.items(), ("model", was)]
    text = json.dumps(dict(items[1:] + items[:1]), ensure_ascii=False, indent=1).encode("utf-8", "replace")
    value = json.loads(text)
    assert read_object(text) == value
    assert json.loads(bytes(with_model(text, name, value["model"]))) == value | {"model": name}


def test_half_a_surrogate_pair_may_be_said_and_is_said_again() -> None:
    body = b'{"model":"chat","x":"\\ud83d"}'
    assert read_fields(body).model == "chat"
    assert read_object(write_object(read_object(body))) == read_object(body)


def form(*parts: bytes, mark: bytes = b"XyZ", end: bytes = b"\r\n") -> bytes:
    """Return a form; each part is its headers and its value."""
    return b"".join(b"--" + mark + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + mark + b"--" + end


def field(name: str, value: bytes) -> bytes:
    """Return one part."""
    return b'Content-Disposition: form-data; name="%b"\r\n\r\n%b' % (name.encode(), value)


KIND = b"multipart/form-data; boundary=XyZ"
NOISE = b'\x00\r\n--Xy\r\n--XyZ9\r\n\r\nname="model"' + os.urandom(3 * MIB)
FILE = (
    b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    + NOISE
)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (form(field("model", b"asr"), FILE), "asr"),
        (form(FILE, field("model", b"asr")), "asr"),
        (form(FILE, field("language", b"de"), field("model", b"a\xc3\xa9"), end=b""), "a\u00e9"),
        (form(b"content-disposition:form-data;name=model\r\n\r\nasr"), "asr"),
        (form(b'X: 1\r\nContent-Disposition: form-data; name="model"\r\n\r\nasr'), "asr"),
        (form(field("model", b"")), ""),
        (form(field("models", b"asr"), b"\r\nno headers"), None),
        (b"preamble\r\n" + form(field("model", b"asr")) + b"epilogue", "asr"),
    ],
)
def test_the_model_of_a_form_is_found_wherever_it_is(body: bytes, model: str | None) -> None:
    found = forms.fields(body, KIND)
    assert forms.value_of(body, found, "model") == model
    if model:
        other = bytes(forms.with_field(body, found, "model", "Z"))
        assert forms.value_of(other, forms.fields(other, KIND), "model") == "Z"
        assert len(other) == len(body) - len(model.encode()) + 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (form(FILE), b"multipart/form-data"),
        (form(FILE)[:-100], KIND),
        (b"", KIND),
        (b"{}", KIND),
        (form(b'Content-Disposition: form-data; name="model"'), KIND),
        (form(*[field("x", b"")] * 1001), KIND),
        (form(b"X: " + b"y" * 9000 + b"\r\n\r\n"), KIND),
    ],
)
def test_what_is_no_whole_form_is_refused(body: bytes, kind: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        forms.fields(body, kind)
    assert (caught.value.status, caught.value.code) == (400, "invalid_form")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["model", "n", "file"]), st.binary(max_size=40)), max_size=5))
def test_any_form_is_read_as_it_was_written(parts: list[tuple[str, bytes]]) -> None:
    kept = [(name, value) for name, value in parts if b"\r\n--XyZ" not in b"\r\n" + value]
    body = form(*[field(name, value) for name, value in kept])
    found = forms.fields(body, b'multipart/form-data; charset=utf-8; boundary="XyZ"')
    assert [(f.name, body[f.start : f.end]) for f in found] == kept
