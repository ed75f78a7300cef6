"""A server that answers at once and streams as fast as it can, so that what is measured is who stands before it.

Run as `python firehose.py PORT`. It ends itself after 15 minutes. Standard library only.
"""

import signal
import socket
import sys
import threading

EVENTS = 20_000
LIFETIME_SECONDS = 900
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}\n\n'
_CHUNK = b"%x\r\n%s\r\n" % (len(_EVENT), _EVENT)
_LAST = b"data: [DONE]\n\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_BODY = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}]}'
_SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_BODY),
    _BODY,
)


def serve(client: socket.socket) -> None:
    """Answer the requests of one connection."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, client.makefile("rb") as file:
        while file.readline():
            length = 0
            while (line := file.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if b'"stream": true' in file.read(length):
                stream(client)
            else:
                client.sendall(_SMALL)


def stream(client: socket.socket) -> None:
    """Send every event by itself, as engines do."""
    client.sendall(_STREAM_HEAD)
    for _ in range(EVENTS):
        client.sendall(_CHUNK)
    client.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(_LAST), _LAST))


def main() -> None:
    """Serve until killed."""
    signal.alarm(LIFETIME_SECONDS)
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
        while True:
            client, _ = server.accept()
            threading.Thread(target=serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main()
