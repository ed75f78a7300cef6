"""The head of an answer: framing, and nothing that would end a header before its end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.protocol.head import head_of

LENGTH = (b"content-length", b"5")


def lines(data: bytes) -> list[bytes]:
    """Return the lines of a head without its date."""
    assert data.endswith(b"\r\n\r\n")
    found = data[:-4].split(b"\r\n")
    assert sum(line.startswith(b"date: ") for line in found) == 1
    return [line for line in found if not line.startswith(b"date: ")]


@pytest.mark.parametrize(
    ("status", "headers", "options", "expected", "length", "kept"),
    [
        (200, [LENGTH], {}, [b"HTTP/1.1 200 OK", b"content-length: 5"], 5, True),
        (200, [], {}, [b"HTTP/1.1 200 OK", b"transfer-encoding: chunked"], None, True),
        (
            200,
            [(b"Transfer-Encoding", b"Chunked")],
            {},
            [b"HTTP/1.1 200 OK", b"transfer-encoding: Chunked"],
            None,
            True,
        ),
        (200, [], {"head_only": True}, [b"HTTP/1.1 200 OK"], 0, True),
        (200, [LENGTH], {"head_only": True}, [b"HTTP/1.1 200 OK", b"content-length: 5"], 5, True),
        (204, [], {}, [b"HTTP/1.1 204 No Content"], 0, True),
        (304, [], {}, [b"HTTP/1.1 304 Not Modified"], 0, True),
        (204, [LENGTH, (b"Transfer-Encoding", b"chunked")], {}, [b"HTTP/1.1 204 No Content"], 0, True),
        (304, [LENGTH], {}, [b"HTTP/1.1 304 Not Modified", b"content-length: 5"], 5, True),
        (299, [LENGTH], {}, [b"HTTP/1.1 299 ", b"content-length: 5"], 5, True),
        (
            200,
            [LENGTH],
            {"keep_alive": False},
            [b"HTTP/1.1 200 OK", b"content-length: 5", b"connection: close"],
            5,
            False,
        ),
        (
            200,
            [LENGTH, (b"Connection", b"x, Close")],
            {},
            [b"HTTP/1.1 200 OK", b"content-length: 5", b"connection: x, Close"],
            5,
            False,
        ),
        # For a client that knows no chunks the end of the connection is that of the body.
        (200, [], {"chunks": False}, [b"HTTP/1.1 200 OK", b"connection: close"], None, False),
        (
            200,
            [(b"Transfer-Encoding", b"chunked")],
            {"chunks": False, "keep_alive": False},
            [b"HTTP/1.1 200 OK", b"connection: close"],
            None,
            False,
        ),
        (200, [LENGTH], {"chunks": False}, [b"HTTP/1.1 200 OK", b"content-length: 5"], 5, True),
        (204, [], {"chunks": False}, [b"HTTP/1.1 204 No Content"], 0, True),
    ],
)
def test_the_framing_is_completed(
    status: int,
    headers: list[tuple[bytes, bytes]],
    options: dict[str, bool],
    expected: list[bytes],
    length: int | None,
    kept: bool,
) -> None:
    head = head_of(status, headers, **options)
    assert (lines(head.data), head.length, head.keep_alive) == (expected, length, kept)


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a\r\nb", b"\xe9", b"a\0", b"(a)", b"a\n"])
def test_what_is_no_name_is_not_sent(name: bytes) -> None:
    with pytest.raises(ValueError, match="no name"):
        head_of(200, [(name, b"v")])


@given(st.binary(max_size=30))
def test_a_value_stays_within_its_header(value: bytes) -> None:
    breaks = any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value)
    try:
        head = head_of(200, [LENGTH, (b"x-a", value), (b"x-b", b"v")])
    except ValueError:
        assert breaks
    else:
        assert not breaks
        assert lines(head.data)[2:] == [b"x-a: " + value, b"x-b: v"]
