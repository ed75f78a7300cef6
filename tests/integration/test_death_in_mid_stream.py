"""A model whose process is killed while it streams: the client is told, and whoever asks next gets an answer."""

import os
import signal
from typing import Final

import httpx
import pytest

from manager import CHAT, Manager, chat

#: Deaths in a row.
DEATHS: Final = int(os.environ.get("DEATHS", "3"))


def test_the_next_request_after_a_death_in_mid_stream_is_answered(manager: Manager) -> None:
    manager.write({"dies": manager.fake("dies", "--stream", "1000", "--delay", "0.02")})
    manager.start()
    said: list[httpx.Response] = []
    with httpx.Client(trust_env=False, timeout=30, base_url=manager.url) as client:
        for _ in range(DEATHS):
            client.post("/api/v1/models/dies/forget")  # each death is the first: nobody waits long
            client.post("/api/v1/models/dies/load")
            [pid] = manager.wait_ready("dies")
            client.get("/healthz")  # so that the next request finds its connection open
            with manager.client.stream("POST", CHAT, json=chat("dies", stream=True)) as stream:
                events = stream.iter_lines()
                next(events)
                os.kill(pid, signal.SIGKILL)
                with pytest.raises(httpx.RemoteProtocolError):
                    for _ in events:
                        pass
                said.append(client.post(CHAT, json=chat("dies", stream=False)))
    assert [answer.text for answer in said if answer.status_code != 200] == []
