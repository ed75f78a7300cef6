"""Helpers for tests: wait for a condition instead of sleeping, and find a free port."""

import inspect
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import anyio

#: argv prefix that starts the scripted engine: `[*FAKE, "--port", "9101"]`.
FAKE = (sys.executable, str(Path(__file__).with_name("fake_engine.py")))

POLL_SECONDS = 0.01

T = TypeVar("T")


def wait_for(predicate: Callable[[], T], timeout: float, what: str) -> T:
    """Poll until `predicate()` is true and return its value; after `timeout` seconds fail, naming `what`."""
    deadline = time.monotonic() + timeout
    while True:
        if value := predicate():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}; last value: {value!r}")
        time.sleep(POLL_SECONDS)


@overload
async def wait_for_async(predicate: Callable[[], Awaitable[T]], timeout: float, what: str) -> T: ...
@overload
async def wait_for_async(predicate: Callable[[], T], timeout: float, what: str) -> T: ...
async def wait_for_async(predicate: Callable[[], Any], timeout: float, what: str) -> Any:
    """Like `wait_for`, but the event loop goes on; `predicate` may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        result = predicate()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}; last value: {value!r}")
        await anyio.sleep(POLL_SECONDS)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on right now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
        return port


def get_json(url: str, timeout: float = 5.0) -> Any:
    """GET `url` past any proxy; return its JSON (of errors too), or None if nobody answers (blocking)."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)
    except OSError:
        return None


def healthy(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a fake engine on `port` says that it is ready (blocking)."""
    address = f"[{host}]" if ":" in host else host
    answer = get_json(f"http://{address}:{port}/health")
    return isinstance(answer, dict) and answer.get("status") == "ok"
