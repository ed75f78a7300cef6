"""Speaks English: Kokoro-82M over onnxruntime, with the phonemes of eSpeak NG."""

import io
import json
import re
import shutil
import subprocess
import textwrap
import wave
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

RATE: Final = 24_000
#: Of the five voices, all Japanese, one whose English Whisper understands.
VOICE: Final = "jf_gongitsune"
#: Phonemes that the model takes at once, and letters that make far fewer.
_MOST: Final = 500
_LETTERS: Final = 120
_MARKS: Final = ",.;:!?"
#: eSpeak's signs for what the model writes with one.
_ALIKE: Final = {
    "dʒ": "ʤ",
    "tʃ": "ʧ",
    "eɪ": "A",  # noqa: RUF001 - phonemes are meant
    "aɪ": "I",  # noqa: RUF001
    "aʊ": "W",
    "oʊ": "O",
    "ɔɪ": "Y",
    "ɚɹ": "əɹ",
    "ɚ": "əɹ",
    "r": "ɹ",
}


class Kokoro:
    """Turns text into a WAV file; 82 million parameters, in 8 bits."""

    def __init__(self, weights: str, threads: int) -> None:
        folder = Path(weights)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads that spin while they wait take the cores from other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # With onnxruntime's arena the longest sentence's memory stays, but its peak is a third of what it is without.
        self.session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )
        self.vocabulary: dict[str, int] = json.loads((folder / "vocab.json").read_text("utf-8"))["vocab"]
        self.voices = np.load(folder / "voices.npz")

    def speak(self, text: str, voice: str = VOICE, speed: float = 1.0) -> bytes:
        """Return 24 kHz, 16 bits, one channel."""
        if voice not in self.voices:
            raise ValueError(f"there is no voice {voice}: one of {', '.join(sorted(self.voices))}")
        pause = np.zeros(RATE // 4, np.float32)
        parts = [part for piece in pieces(text) for part in (self._say(piece, voice, speed), pause)]
        return wav(np.concatenate([*parts, pause]))

    def _say(self, text: str, voice: str, speed: float) -> Any:
        signs = phonemes(text)
        numbers = [self.vocabulary[sign] for sign in signs if sign in self.vocabulary][:_MOST]
        styles = self.voices[voice]
        inputs = {
            "tokens": np.array([[0, *numbers, 0]], dtype=np.int64),
            "style": styles[min(len(numbers), len(styles)) - 1].reshape(1, 256).astype(np.float32),
            "speed": np.array([speed], dtype=np.float32),
        }
        return self.session.run(None, inputs)[0].ravel()


def pieces(text: str) -> list[str]:
    """Return a text in sentences, long ones in parts: memory grows with the longest that is spoken at once."""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    return [piece for sentence in sentences for piece in textwrap.wrap(sentence, _LETTERS)]


def phonemes(text: str) -> str:
    """Return English text in the model's phonemes."""
    # eSpeak drops punctuation, and the model pauses by it.
    pieces = [
        piece if piece in _MARKS else espeak(piece)
        for piece in re.split(f"([{_MARKS}])", text)
        if piece.strip()
    ]
    signs = " ".join(" ".join(pieces).split()).replace("\u0361", "")
    signs = re.sub(f" ([{_MARKS}])", r"\1", signs)
    for theirs, ours in _ALIKE.items():
        signs = signs.replace(theirs, ours)
    return signs


def espeak(text: str) -> str:
    """Return what eSpeak NG makes of a text: of the package espeak-english, else of the program on PATH."""
    try:
        from espeak_english import phonemes as of_package
    except ImportError:
        program = shutil.which("espeak-ng")
        if program is None:
            raise RuntimeError("espeak-english has no wheel for this machine: install espeak-ng") from None
        command = [program, "-q", "--ipa", "-v", "en-us", "--", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return str(of_package(text))


def wav(samples: Any) -> bytes:
    """Return samples between -1 and 1 as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()
