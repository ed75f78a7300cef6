"""Models of made-up desks: how big, how fast; and the files that describe a desk with some of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.simulate.layout import Speed


@dataclass(frozen=True, slots=True)
class Kind:
    """One model. GB are 10^9 bytes; what it takes to load is `begin` seconds and its size from the disk."""

    gb: float
    slots: int
    begin: float
    evict: float
    #: Tokens a second.
    prompt: float
    output: float

    def speed(self, disk: float) -> Speed:
        """Return its speeds with a disk of so many GB a second."""
        return Speed(round(self.begin + self.gb / disk, 2), self.evict, self.prompt, self.output)


CHAT_70B: Final = Kind(44, 2, 2.5, 2.5, 350, 8)
CODER_30B: Final = Kind(22, 3, 2.0, 2.0, 1500, 60)
CHAT_30B: Final = Kind(20, 3, 2.0, 2.0, 1500, 55)
IMAGE: Final = Kind(26, 1, 3.0, 2.0, 1000, 1.2)
EMBED: Final = Kind(1.2, 8, 1.0, 1.0, 20_000, 100)
RERANK: Final = Kind(1.4, 4, 1.0, 1.0, 20_000, 100)
ASR: Final = Kind(4, 1, 1.5, 1.0, 1500, 90)
VISION_12B: Final = Kind(11, 2, 2.0, 1.5, 900, 25)
BIG_120B: Final = Kind(66, 2, 3.0, 3.0, 700, 35)

#: Five models around a 70B that chats; five around speech; and twelve.
FIVE: Final = {
    "chat-70b": CHAT_70B,
    "coder-30b": CODER_30B,
    "image": IMAGE,
    "embed": EMBED,
    "rerank": RERANK,
}
SPEECH: Final = {
    "chat-30b": CHAT_30B,
    "vision-12b": VISION_12B,
    "asr": ASR,
    "image": Kind(24, 1, 3.0, 2.0, 1000, 1.2),
    "big-120b": BIG_120B,
}
TWELVE: Final = {
    "big-120b": BIG_120B,
    "plan-70b": CHAT_70B,
    "coder-30b": CODER_30B,
    "chat-30b": CHAT_30B,
    "image": IMAGE,
    "chat-14b": Kind(11, 3, 1.8, 1.5, 1200, 25),
    "vision-12b": VISION_12B,
    "fim-7b": Kind(6, 4, 1.5, 1.2, 3000, 60),
    "asr": ASR,
    "tts": Kind(2.2, 1, 1.5, 1.0, 3000, 80),
    "embed": EMBED,
    "rerank": RERANK,
}


def manifest_text(models: Mapping[str, Kind], gb: float, note: str) -> str:
    """Return a manifest: the budget is all of `gb`, nobody is refused, all models weigh alike, nothing runs idle."""
    lines = [
        f"# {note}",
        "apiVersion: reconciler/v1",
        "machine:",
        f"  memory: {gb:g}GB",
        "  reserve: 0",
        "  watermarks: {soft: 100%, target: 100%, hard: 100%, critical: 100%}",
        'x-server: &server {engine: command, command: [sleep, infinity, "${port}"]}',
        "defaults:",
        "  residency: on_demand",
        "  gate: none",
        "  queue: {max: 100000, timeout: 24h}",
        "  timeouts: {drain: never}",
        "models:",
    ]
    lines += [
        f"  {name}: {{<<: *server, memory: {{steady: {kind.gb:g}GB}}, concurrency: {kind.slots}}}"
        for name, kind in sorted(models.items())
    ]
    return "\n".join(lines) + "\n"


def machine_text(speeds: Mapping[str, Speed], gb: float) -> str:
    """Return the description of the machine: its memory, and how fast models are on it."""
    lines = ["apiVersion: reconciler/v1", f"memory: {gb:g}GB", "speeds:"]
    lines += [
        f"  {name}: {{load: {s.load:g}s, evict: {s.evict:g}s, prompt: {s.prompt:g}, output: {s.output:g}, "
        f"fixed: {s.fixed:g}s}}"
        for name, s in sorted(speeds.items())
    ]
    return "\n".join(lines) + "\n"
