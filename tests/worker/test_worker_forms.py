"""Forms with files and bodies in chunks, read strictly."""

import io

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.worker import body, head, multipart
from reconciler.worker.errors import Refused
from reconciler.worker.head import Head

KIND = 'multipart/form-data; boundary="x"'
HEAD = b'Content-Disposition: form-data; name="a"\r\n\r\n'
names = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f%\\", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
)


@given(
    st.lists(st.tuples(names, st.binary(max_size=60), st.one_of(st.none(), names)), min_size=1, max_size=5),
    st.from_regex(r"[A-Za-z0-9'()+_,./:=?-]{1,60}", fullmatch=True),
)
def test_what_httpx_writes_is_read(fields: list[tuple[str, bytes, str | None]], boundary: str) -> None:
    if any(b"--" + boundary.encode() in data for _, data, _ in fields):
        return
    sent = httpx.Request(
        "POST",
        "http://x",
        files=[(name, (file, data)) for name, data, file in fields],
        headers={"content-type": f'multipart/form-data; boundary="{boundary}"'},
    )
    parts = multipart.parse(sent.headers["content-type"], sent.read())
    assert [part.data for part in parts] == [data for _, data, _ in fields]
    assert [(part.name, part.filename) for part in parts] == [(name, file) for name, _, file in fields]


@pytest.mark.parametrize(
    ("kind", "data", "parts"),
    [
        ("multipart/form-data; boundary=x", b"--x\r\n" + HEAD + b"1\r\n--x--\r\n", [("a", None, b"1")]),
        (
            "Multipart/Form-Data;charset=utf-8; Boundary=x",
            b"--x\r\n" + HEAD + b"\r\n--x--",
            [("a", None, b"")],
        ),
        (
            KIND,
            b"--x\r\nContent-Type: a/b\r\ncontent-disposition: form-data; filename=f.wav; name=a\r\n\r\n1\r\n--x--",
            [("a", "f.wav", b"1")],
        ),
        (
            KIND,
            b'--x\r\nContent-Disposition: form-data; name="a\\"b"; filename="\xc3\xbc %22.wav"\r\n\r\n\r\n--y\r\n--x--',
            [('a"b', 'ü ".wav', b"\r\n--y")],
        ),
        (
            KIND,
            b'--x\r\nContent-Disposition: form-data; filename="a; name=z.wav"; name="file"\r\n\r\n1\r\n--x--',
            [("file", "a; name=z.wav", b"1")],
        ),
        (KIND, b"for nobody\r\n--x \t\r\n" + HEAD + b"1\r\n--x--", [("a", None, b"1")]),
        (KIND, b"\r\n--x\r\n" + HEAD + b"1\r\n--x--", [("a", None, b"1")]),
        (KIND, b"--x\r\nContent-Disposition: form-data;name=a;\r\n\r\n1\r\n--x--", [("a", None, b"1")]),
    ],
)
def test_forms(kind: str, data: bytes, parts: list[tuple[str, str | None, bytes]]) -> None:
    assert multipart.parse(kind, data) == parts


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("application/json", b"{}", "multipart/form-data"),
        ("multipart/form-data", b"--x--", "with a boundary"),
        (KIND, b"preamble --x\r\n" + HEAD + b"1", "has no boundary"),
        (KIND, b"", "has no boundary"),
        (KIND, b"--x" + b" " * 99 + b"\r\n" + HEAD + b"1\r\n--x--", "neither a line nor the end"),
        (KIND, b'--x\r\nContent-Disposition: form-data; name="a\r\n\r\n1\r\n--x--', "cannot be read"),
        (KIND, b"--x\r\nContent-Disposition: form-data; x=name=a\r\n\r\n1\r\n--x--", "no name"),
        (KIND, b"--x\r\n" + HEAD + b"1", "ends before"),
        (KIND, b"--x\r\n" + HEAD + b"1\r\n--xyz", "neither a line nor the end"),
        (KIND, b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--", "no name"),
        (KIND, b'--x\r\nContent-Disposition: attachment; name="a"\r\n\r\n1\r\n--x--', "no name"),
        (KIND, b"--x\r\nno head\r\n--x--", "no head"),
        (KIND, b"--x\r\nX: " + b"y" * 9000 + b"\r\n" + HEAD + b"1\r\n--x--", "too long"),
        (KIND, b"--x\r\n" + HEAD + b"1" + (b"\r\n--x\r\n" + HEAD + b"1") * 64 + b"\r\n--x--", "more than 64"),
    ],
)
def test_forms_that_are_refused(kind: str, data: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        multipart.parse(kind, data)


@given(st.text(max_size=60), st.binary(max_size=200))
def test_anything_is_a_form_or_is_refused(kind: str, data: bytes) -> None:
    for content_type in (kind, KIND):
        try:
            multipart.parse(content_type, b"--x\r\n" + data)
        except Refused:
            continue


CHUNKED = Head("POST", "/", "1.1", {"transfer-encoding": ("Chunked",)})


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.binary(max_size=20))
def test_chunks_are_put_together(parts: list[bytes], rest: bytes) -> None:
    sent = b"".join(b"%X;ext=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"
    stream = io.BufferedReader(io.BytesIO(sent + rest))
    assert body.read(CHUNKED, stream) == b"".join(parts)
    assert stream.read() == rest


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"5\r\nab",
        b"-1\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"1\na\r\n",
        b"1" * 300,
        b"0\r\n" + b"a: b\r\n" * 40,
    ],
)
def test_chunks_that_are_refused(sent: bytes) -> None:
    with pytest.raises(Refused):
        body.read(CHUNKED, io.BufferedReader(io.BytesIO(sent)))


def test_a_chunk_too_large_is_refused_before_it_is_read() -> None:
    stream = io.BufferedReader(io.BytesIO(b"7fffffff\r\n"))
    with pytest.raises(Refused, match="256 MiB") as refused:
        body.read(CHUNKED, stream)
    assert refused.value.status == 413


TOKENS = st.from_regex(r"[A-Za-z0-9-]{1,12}", fullmatch=True)
VALUES = st.from_regex(r"[!-~]([ -~]{0,20}[!-~])?", fullmatch=True)


@given(st.lists(st.tuples(TOKENS, VALUES), max_size=8), st.from_regex(r"/[!-~]{0,30}", fullmatch=True))
def test_heads_are_read(fields: list[tuple[str, str]], target: str) -> None:
    lines = "".join(f"{name}:  {value}\t\r\n" for name, value in fields)
    stream = io.BufferedReader(io.BytesIO(f"POST {target} HTTP/1.1\r\n{lines}\r\nrest".encode()))
    found = head.read(stream)
    assert found is not None
    assert (found.method, found.target, found.path) == ("POST", target, target.split("?")[0])
    for name, _ in fields:
        assert found.values(name.lower()) == tuple(v for n, v in fields if n.lower() == name.lower())
    assert stream.read() == b"rest"


@given(st.binary(max_size=80))
def test_anything_is_a_head_or_is_refused(data: bytes) -> None:
    for sent in (data, b"GET / HTTP/1.1\r\n" + data):
        try:
            found = head.read(io.BufferedReader(io.BytesIO(sent)))
        except Refused:
            continue
        assert found is not None or not sent.removeprefix(b"\r\n")


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [("1.1", (), True), ("1.1", ("x, Close",), False), ("1.0", ("keep-alive",), False)],
)
def test_whether_a_connection_is_kept(version: str, connection: tuple[str, ...], keeps: bool) -> None:
    assert Head("GET", "/", version, {"connection": connection}).keeps is keeps
