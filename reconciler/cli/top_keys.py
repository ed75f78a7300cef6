"""Keys on a terminal, one at a time, without waiting for Enter; and a way to be woken while one waits for them."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: What terminals send for keys that are no characters.
_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}


class Keys:
    """Waits for a key, a call of `wake`, or a time. Without a terminal to read from there are no keys."""

    def __init__(self) -> None:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        self._input: int | None = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None

    def wake(self) -> None:
        """End a wait, from any thread or signal handler; one that is under way already is enough."""
        with suppress(BlockingIOError):
            os.write(self._wake, b".")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._woken)
        os.close(self._wake)

    def wait(self, seconds: float) -> list[str]:
        """Return the keys that were pressed: characters, or names like `up`; at most `seconds` later, perhaps none."""
        sources = [self._woken, *([self._input] if self._input is not None else [])]
        ready, _, _ = select.select(sources, [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._input is None or self._input not in ready:
            return []
        data = os.read(self._input, 1024)
        if not data:  # the terminal is gone
            self._input = None
        return list(_keys(data))


def _keys(data: bytes) -> Iterator[str]:
    """Return the keys in what a terminal has sent.

    >>> list(_keys(b"q\\x1b[Bab\\x1b"))
    ['q', 'down', 'a', 'b', 'escape']
    """
    while data:
        code = next((c for c in sorted(_NAMES, key=len, reverse=True) if data.startswith(c)), None)
        if code is not None:
            yield _NAMES[code]
            data = data[len(code) :]
            continue
        length = next((n for n in range(1, 5) if _decodes(data[:n])), 1)
        text = data[:length].decode("utf-8", "ignore")
        data = data[length:]
        if text.isprintable() and text:
            yield text


def _decodes(data: bytes) -> bool:
    try:
        return bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False


@contextmanager
def single_keys() -> Iterator[None]:
    """Have the terminal send each key at once and show none of them; it is as before afterwards."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
