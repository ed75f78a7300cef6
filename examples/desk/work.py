"""Gives each model of the desk some work, through the one address, and says what that loaded and evicted, and why.

    .venv/bin/python work.py http://127.0.0.1:8080 [--log FILE]     # in examples/desk, with its own environment

FILE is what `RECONCILE_LOG=json reconcile models.yaml 2> FILE` writes. `make desk` does all of it.
"""

import argparse
import base64
import io
import sys
import textwrap
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from front import DeskError, Front, Journal, Watch
from PIL import Image, ImageDraw, ImageFont

OUT: Final = Path(__file__).resolve().parent / "out"
QUESTION: Final = "In one sentence: what does a gardener do?"
DOCUMENTS: Final = (
    "Owls and sparrows spend the night in hollow trees and hedges.",
    "The town hall opens at nine and closes at four.",
    "Water the tomatoes in the morning, before the sun is high.",
    "A violin has four strings, tuned in fifths.",
)
QUERY: Final = "Where do birds sleep?"
RECEIPT: Final = ("INVOICE 2041", "Total due: 1,250.00 EUR")
LANDSCAPE: Final = "hills, roughness 60"
#: Cosine that two sentences of one meaning reach, and other ones do not.
ALIKE: Final = 0.7


class Work:
    """The steps, in the order they are done; each returns what is shown of its answer."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.sentence = ""
        self.sound = b""
        self.heard = ""

    def steps(self) -> list[tuple[str, str, Callable[[], str]]]:
        """Return the model, what it is asked, and how."""
        return [
            ("chat", QUESTION, self.chat),
            ("embed", f"{len(DOCUMENTS)} documents; {QUERY}", self.embed),
            ("rerank", f"{len(DOCUMENTS)} passages; {QUERY}", self.rerank),
            ("ocr", "a picture of a receipt", self.ocr),
            ("tts", "the sentence of chat", self.tts),
            ("asr", "the recording of tts", self.asr),
            ("embed", "what was said, and what was heard", self.compare),
            ("image", LANDSCAPE, self.image),
            ("chat", "the same again", self.chat),
        ]

    def chat(self) -> str:
        """Have a sentence written."""
        message = {"role": "user", "content": QUESTION}
        body = {"model": "chat", "messages": [message], "max_tokens": 60, "temperature": 0}
        self.sentence = self._text(self.front.ask("/v1/chat/completions", body))
        return self.sentence

    def embed(self) -> str:
        """Find the document that answers the query by the cosine of their vectors."""
        query, *documents = self._vectors([QUERY, *DOCUMENTS])
        scores = [cosine(query, document) for document in documents]
        best = max(range(len(scores)), key=scores.__getitem__)
        expect(best == 0, f"the best document for {QUERY!r} is {DOCUMENTS[best]!r}")
        return f"{scores[best]:.2f}  {DOCUMENTS[best]}"

    def rerank(self) -> str:
        """Have the documents put in order."""
        body = {"model": "rerank", "query": QUERY, "documents": list(DOCUMENTS)}
        results = self.front.ask("/v1/rerank", body)["results"]
        ordered = sorted(results, key=lambda result: -result["relevance_score"])
        expect(ordered[0]["index"] == 0, f"the first passage is number {ordered[0]['index']}")
        return "\n".join(f"{r['relevance_score']:.2f}  {DOCUMENTS[r['index']]}" for r in ordered[:2])

    def ocr(self) -> str:
        """Draw a text and have it read."""
        picture = receipt()
        (OUT / "receipt.png").write_bytes(picture)
        url = "data:image/png;base64," + base64.b64encode(picture).decode()
        content = [{"type": "text", "text": "Read it."}, {"type": "image_url", "image_url": {"url": url}}]
        body = {"model": "ocr", "messages": [{"role": "user", "content": content}]}
        text = self._text(self.front.ask("/v1/chat/completions", body))
        expect(text == "\n".join(RECEIPT), f"it reads {text!r}")
        return text

    def tts(self) -> str:
        """Have the sentence spoken."""
        self.sound = self.front.post("/v1/audio/speech", {"model": "tts", "input": self.sentence})
        (OUT / "sentence.wav").write_bytes(self.sound)
        with wave.open(io.BytesIO(self.sound)) as recording:
            seconds = recording.getnframes() / recording.getframerate()
        return f"{seconds:.1f} s of speech: out/sentence.wav"

    def asr(self) -> str:
        """Have the recording written down."""
        answer = self.front.upload("/v1/audio/transcriptions", {"model": "asr"}, "sentence.wav", self.sound)
        self.heard = answer["text"].strip()
        return self.heard

    def compare(self) -> str:
        """Tell whether what was heard means what was said."""
        said, heard = self._vectors([self.sentence, self.heard])
        likeness = cosine(said, heard)
        expect(likeness > ALIKE, f"said: {self.sentence!r}, heard: {self.heard!r}, cosine {likeness:.2f}")
        return f"cosine {likeness:.2f}: chat, tts, asr and embed are what they say they are"

    def image(self) -> str:
        """Have a landscape drawn."""
        answer = self.front.ask("/v1/images/generations", {"model": "image", "prompt": LANDSCAPE})
        picture = base64.b64decode(answer["data"][0]["b64_json"])
        (OUT / "landscape.png").write_bytes(picture)
        with Image.open(io.BytesIO(picture)) as drawn:
            shades = len(set(drawn.tobytes()))
            expect(shades > 100, f"the picture has {shades} shades")
            return f"{drawn.width} x {drawn.height}, {shades} shades of grey: out/landscape.png"

    def _text(self, answer: Any) -> str:
        text = str(answer["choices"][0]["message"]["content"]).strip()
        expect(bool(text), "the answer is empty")
        return text

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        answer = self.front.ask("/v1/embeddings", {"model": "embed", "input": list(texts)})
        return [item["embedding"] for item in sorted(answer["data"], key=lambda item: item["index"])]


def expect(right: bool, what: str) -> None:
    """Raise DeskError if an answer cannot be right."""
    if not right:
        raise DeskError(what)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors.

    >>> cosine([3.0, 0.0], [2.0, 2.0])
    0.7071067811865475
    """
    product = sum(a * b for a, b in zip(one, other, strict=True))
    lengths = sum(a * a for a in one) * sum(b * b for b in other)
    return float(product / lengths**0.5)


def receipt() -> bytes:
    """Return a PNG with the words of a receipt."""
    picture = Image.new("RGB", (480, 120), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(28)
    for number, line in enumerate(RECEIPT):
        pen.text((20, 15 + 50 * number), line, fill="black", font=font)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def show(text: str) -> None:
    """Print lines at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def summary(status: dict[str, Any]) -> str:
    """Return who is in memory now."""
    there = [model["name"] for model in status["models"] if model["state"] == "ready"]
    memory = status["memory"]
    return f"in memory: {', '.join(there)}; {memory['held'] >> 20} of {memory['budget'] >> 20} MiB"


def main(argv: Sequence[str] | None = None) -> int:
    """Do all steps. Returns 0, or 1 after a message."""
    parser = argparse.ArgumentParser(description="Give each model of the desk some work.")
    parser.add_argument("url", help="the gateway's address")
    parser.add_argument("--log", type=Path, help="file that reconcile logs JSON lines to")
    options = parser.parse_args(argv)
    front, journal = Front(options.url), Journal(options.log)
    OUT.mkdir(exist_ok=True)
    model = ""
    try:
        for model, asked, step in Work(front).steps():
            watch = Watch()
            answer = step()
            seconds = str(watch)
            news = [f"    {line}" for line in journal.news()]
            show("\n".join(["", f"{model}  {asked}  ({seconds})", *news, textwrap.indent(answer, "  ")]))
        show(f"\n{summary(front.status())}")
    except DeskError as error:
        show("\n".join(["", *(f"    {line}" for line in journal.news())]))
        sys.stderr.write(f"work: {model}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
