"""`reconcile top` follows a loop, asks where it cannot follow, waits for one that is gone, and cleans up the screen."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board_samples import NOW, design_plan
from board_samples import snapshot as guarded
from gateway_rig import Rig, rig
from golden_files import assert_golden
from history_samples import filled, utc
from loop_stand_in import StandIn, standing_in
from reconciler.board import Snapshot
from reconciler.cli import main, top_feed
from reconciler.cli.client import LoopClient
from reconciler.cli.top_feed import ENDED, LIVE, SILENT, Feed, seen_now
from reconciler.cli.top_keys import _keys
from reconciler.cli.top_screen import Choices
from reconciler.gateway import live, stream
from reconciler.gateway.views import standard_views
from reconciler.host import identify
from reconciler.manifest.applied import ApiKey, GatewaySettings
from reconciler.store import AsyncStore
from reconciler.store.paths import DATABASE
from support import wait_for_async
from top_views import BUSY_EVENTS, busy

anyio_test = pytest.mark.anyio
GONE = "http://127.0.0.1:9"


def documents(stand_in: StandIn) -> None:
    """Have a stand-in answer as a loop without a live stream."""
    shown = busy()
    stand_in.documents("GET /api/v1/status", shown.status)
    stand_in.documents("GET /api/v1/plan", shown.plan)
    stand_in.documents("GET /api/v1/events?limit=200", {"events": BUSY_EVENTS, "last": 7, "more": False})


def test_once_prints_one_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("time.strftime", lambda form, *_: "09:00:00")
    with standing_in(tmp_path) as stand_in, utc():
        documents(stand_in)
        assert main(["top", "--once", "--state-dir", str(tmp_path)]) == 0
    assert_golden("top-verb-once.txt", capsys.readouterr().out)


def test_where_no_screen_can_be_drawn_it_says_what_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--state-dir", str(tmp_path)]) == 1
    assert "`reconcile top --once`" in capsys.readouterr().err
    assert main(["top", "--once", "--state-dir", str(tmp_path)]) == 1
    assert "no loop runs" in capsys.readouterr().err


# -- keys ----------------------------------------------------------------------------------------------------------


def test_keys_choose_what_is_shown() -> None:
    choices, shown = Choices(), replace(busy(), offset=0)
    for key in "s/co":
        choices.press(key)
    assert (choices.applied(shown).sort, choices.applied(shown).typing) == ("memory", "co")
    for key in ("d", "backspace", "q", "backspace", "enter"):
        choices.press(key)
    assert (choices.filter, choices.typing, choices.done) == ("co", None, False)
    for key in ("down", "j", "page down", "up", "k"):
        choices.press(key)
    assert choices.applied(shown).offset == 5  # there are six models
    for key in ("page up", "escape"):
        choices.press(key)
    assert (choices.applied(shown).offset, choices.filter) == (0, "")
    for key in ("/", "x", "escape", "q"):
        choices.press(key)
    assert (choices.typing, choices.filter, choices.done) == (None, "", True)


@given(st.binary(max_size=40))
def test_whatever_a_terminal_sends_is_keys(data: bytes) -> None:
    assert all(key.isprintable() and key for key in _keys(data))


def test_characters_of_several_bytes_are_one_key() -> None:
    assert list(_keys("é模".encode() + b"\x1b[5~\x7f")) == ["é", "模", "page up", "backspace"]


# -- the feed ------------------------------------------------------------------------------------------------------


def snapshot() -> Snapshot:
    """Return a busy desk that asks for no key."""
    made = guarded()
    return replace(made, applied=replace(made.applied, gateway=GatewaySettings()))


def announce(folder: Path, url: str) -> None:
    """Leave the note that a loop leaves."""
    me = identify(os.getpid())
    assert me is not None
    note = {"pid": me.pid, "started": me.started, "url": url, "version": "0.1.0"}
    (folder / "run.json").write_text(json.dumps(note))


@asynccontextmanager
async def loop(folder: Path) -> AsyncIterator[Rig]:
    """Serve a busy desk as a loop does, with a ledger."""
    store = await AsyncStore.open(
        filled(folder / DATABASE) if not (folder / DATABASE).exists() else folder / DATABASE
    )
    try:
        async with rig(views=standard_views()) as r:
            r.publish(snapshot())
            r.board.ask = store.ask
            announce(folder, f"http://127.0.0.1:{r.port}")
            yield r
    finally:
        await store.close()


@asynccontextmanager
async def following(folder: Path, r: Rig) -> AsyncIterator[Feed]:
    first = await anyio.to_thread.run_sync(seen_now, LoopClient(f"http://127.0.0.1:{r.port}"), LIVE)
    feed = Feed(folder, first, lambda: None)
    feed.start()
    try:
        yield feed
    finally:
        feed.close()


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(top_feed, "LOOK", 0.02)
    monkeypatch.setattr(top_feed, "POLL", 0.02)


@anyio_test
@pytest.mark.usefixtures("_quick")
async def test_it_follows_a_loop_and_the_next_one(tmp_path: Path) -> None:
    async with loop(tmp_path) as r, following(tmp_path, r) as feed:
        assert (feed.seen.status["pid"], feed.seen.events[-1]["id"]) == (4000, 7)
        r.publish(replace(snapshot(), plan=design_plan()))
        await wait_for_async(lambda: len(feed.seen.plan["steps"]) == 2, 5, "the other plan")
        assert r.board.ask is not None
        await r.board.ask(lambda store: store.add_event(NOW, "load", "chat", "Demanded", "for a test"))
        r.board.noted()
        await wait_for_async(lambda: feed.seen.events[-1]["message"] == "for a test", 5, "the event")
        assert (feed.seen.link, feed.seen.lost_at) == (LIVE, None)
        (tmp_path / "run.json").unlink()
        r.board.end()
        await wait_for_async(lambda: feed.seen.lost_at is not None, 5, "the end to be told")
        assert feed.seen.link == ENDED
        async with loop(tmp_path) as other:
            other.publish(replace(snapshot(), pid=4711))
            await wait_for_async(lambda: feed.seen.status["pid"] == 4711, 5, "the other loop")
            await wait_for_async(lambda: feed.seen.lost_at is None, 5, "it to be live again")
            assert feed.failed is None


@anyio_test
@pytest.mark.usefixtures("_quick")
async def test_without_a_stream_it_asks_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STREAMS_MOST", 0)
    async with loop(tmp_path) as r, following(tmp_path, r) as feed:
        await wait_for_async(lambda: feed.seen.link.startswith("every "), 5, "it to ask")
        r.publish(replace(snapshot(), pid=4711))
        await wait_for_async(lambda: feed.seen.status["pid"] == 4711, 5, "the other status")


@anyio_test
@pytest.mark.usefixtures("_quick")
async def test_a_connection_that_breaks_is_taken_up_again(tmp_path: Path) -> None:
    async with loop(tmp_path) as r, following(tmp_path, r) as feed:
        announce(tmp_path, GONE)

        def lost() -> bool:
            for connection in list(r.server.server_state.connections):
                connection.transport.abort()
            return feed.seen.lost_at is not None

        await wait_for_async(lost, 5, "the loss to be told")
        announce(tmp_path, f"http://127.0.0.1:{r.port}")
        await wait_for_async(lambda: feed.seen.lost_at is None, 5, "it to be live again")


@anyio_test
@pytest.mark.usefixtures("_quick")
async def test_a_loop_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_feed, "SILENCE", 0.3)  # less than the 4 s in which a loop at rest says something
    told: list[tuple[str, bool]] = []
    async with loop(tmp_path) as r:
        first = await anyio.to_thread.run_sync(seen_now, LoopClient(f"http://127.0.0.1:{r.port}"), LIVE)
        feed = Feed(tmp_path, first, lambda: told.append((feed.seen.link, feed.seen.lost_at is None)))
        feed.start()
        try:
            await wait_for_async(lambda: (SILENT, False) in told, 5, "the silence to be told")
            await wait_for_async(lambda: told[-1] == (LIVE, True), 5, "it to be taken up again")
        finally:
            feed.close()


@anyio_test
@pytest.mark.usefixtures("_quick")
async def test_a_key_that_is_refused_ends_it(tmp_path: Path) -> None:
    async with loop(tmp_path) as r, following(tmp_path, r) as feed:
        r.settings(GatewaySettings(api_keys=(ApiKey("sk-new"),)))
        await wait_for_async(lambda: feed.failed is not None, 5, "it to end")
        assert "RECONCILE_API_KEY" in str(feed.failed)


# -- the screen ----------------------------------------------------------------------------------------------------


def read_until(descriptor: int, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        data += os.read(descriptor, 65536)
    return data


def test_ctrl_c_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(inside)
    with standing_in(tmp_path) as stand_in:
        documents(stand_in)
        program = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "top", "--state-dir", str(tmp_path)],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": ""},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        begun = read_until(terminal, b"q quit")
        assert b"\x1b[?1049h" in begun
        assert b"\x1b[?25l" in begun
        assert b"\x1b[32mready" in begun
        os.write(terminal, b"s")
        read_until(terminal, b"sorted by memory")
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 8, 30, 0, 0))
        read_until(terminal, b"make the window")
        os.write(terminal, b"\x03")
        ended = read_until(terminal, b"\x1b[?1049l")
        assert program.wait(10) == 0
        assert b"\x1b[?25h" in ended
        assert b"Traceback" not in ended
    assert termios.tcgetattr(inside) == before
    os.close(terminal)
    os.close(inside)
