"""The screen of `reconcile top`: drawn anew when something comes, a key is pressed, or a second is over."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from reconciler.cli.signals import Endings
from reconciler.cli.top import view_of
from reconciler.cli.top_feed import Feed, Seen
from reconciler.cli.top_keys import Keys, single_keys
from reconciler.render.top_text import screen
from reconciler.render.top_view import ORDERS, View

#: Seconds after which the picture is drawn anew, since its ages have grown.
TICK: Final = 1.0
_PAGE: Final = 10


class Choices:
    """What the person at the keyboard chose."""

    def __init__(self) -> None:
        self.sort = next(iter(ORDERS))
        self.filter = ""
        self.typing: str | None = None
        self.offset = 0
        self.done = False

    def press(self, key: str) -> None:
        """Do what a key is for."""
        if self.typing is not None:
            self._type(self.typing, key)
        elif key == "q":
            self.done = True
        elif key == "s":
            orders = list(ORDERS)
            self.sort = orders[(orders.index(self.sort) + 1) % len(orders)]
        elif key == "/":
            self.typing = self.filter
        elif key == "escape":
            self.filter, self.offset = "", 0
        else:
            self.offset += {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -_PAGE, "page down": _PAGE}.get(
                key, 0
            )

    def _type(self, typed: str, key: str) -> None:
        if key == "enter":
            self.filter, self.typing, self.offset = typed, None, 0
        elif key == "escape":
            self.filter, self.typing, self.offset = "", None, 0
        elif key == "backspace":
            self.typing = typed[:-1]
        elif len(key) == 1:
            self.typing = typed + key

    def applied(self, view: View) -> View:
        """Return the view with what was chosen; one cannot scroll past the last model."""
        self.offset = max(0, min(self.offset, len(view.status["models"]) - 1))
        return replace(view, sort=self.sort, filter=self.filter, typing=self.typing, offset=self.offset)


def run(directory: Path, first: Seen, *, colour: bool, blocks: bool) -> int:
    """Show the screen until q or Ctrl-C; the terminal is as before afterwards. Raises CliError."""
    keys = Keys()
    feed = Feed(directory, first, keys.wake)
    shown = _Screen(feed, keys, colour=colour, blocks=blocks)
    handlers = {signal.SIGWINCH: lambda *_: keys.wake(), signal.SIGTSTP: lambda *_: shown.suspend()}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        feed.start()
        with Endings():
            shown.show()
    except KeyboardInterrupt:
        pass  # that is how people leave it
    finally:
        feed.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if feed.failed is not None:
        raise feed.failed
    return 0


class _Screen:
    """Draws what the feed has seen as the keys say."""

    def __init__(self, feed: Feed, keys: Keys, *, colour: bool, blocks: bool) -> None:
        self._feed = feed
        self._keys = keys
        self._colour = colour
        self._blocks = blocks
        self._choices = Choices()
        self._suspended = False

    def suspend(self) -> None:
        """Give the terminal back for a while (Ctrl-Z); from a signal handler."""
        self._suspended = True
        self._keys.wake()

    def show(self) -> None:
        """Return when it is to end."""
        console = self._console()
        while not self._done:
            with single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
                while not self._done and not self._suspended:
                    live.update(self._drawn(*console.size), refresh=True)
                    for key in self._keys.wait(TICK):
                        self._choices.press(key)
            if self._suspended:
                self._suspended = False
                os.kill(os.getpid(), signal.SIGSTOP)  # until the shell has it go on

    def _console(self) -> Console:
        # A shell may export the size it had when it began: the terminal itself knows better.
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        return Console(
            file=sys.stdout,
            no_color=not self._colour,
            highlight=False,
            emoji=False,
            markup=False,
            _environ=environ,
        )

    @property
    def _done(self) -> bool:
        return self._choices.done or self._feed.failed is not None

    def _drawn(self, width: int, height: int) -> Text:
        view = self._choices.applied(view_of(self._feed.seen))
        lines = screen(view, width, height, colour=self._colour, blocks=self._blocks)
        return Text.from_ansi("\n".join(lines), no_wrap=True, overflow="crop", end="")
