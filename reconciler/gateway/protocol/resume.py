"""Reading on after a wish to upgrade that is not fulfilled: the body belongs to the request that had the wish.

The parser stops behind the head of such a request and takes what follows for the next one: a body is then a request
that nobody made. So another parser takes over, which is told of the body only.
"""

from typing import Any, Protocol

import httptools


class _Reader(Protocol):
    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, data: bytes) -> None: ...
    def on_message_complete(self) -> None: ...


class _Resumed:
    """What the new parser calls: the reader, except for the head that only says what body follows."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._ready = False
        self.on_body = reader.on_body
        self.on_message_complete = reader.on_message_complete

    def on_message_begin(self) -> None:
        if self._ready:
            self._reader.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._ready:
            self._reader.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._ready:
            self._reader.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._ready:
            self._reader.on_headers_complete()
        self._ready = True


def new_parser(reader: object) -> Any:
    """Return a parser of requests.

    A request that wants the connection closed may have others behind it; they are dropped, it is answered.
    """
    parser = httptools.HttpRequestParser(reader)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def resumed_parser(reader: _Reader, length: int | None) -> Any:
    """Return a parser that is behind a head and reads the body of so many bytes; None = it comes in chunks."""
    parser = new_parser(_Resumed(reader))
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
    return parser
