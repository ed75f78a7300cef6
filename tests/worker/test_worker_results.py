"""What a class returned by mistake is an error with a sentence, never an answer: also for the proof that it works."""

import math
from typing import Any

import httpx
import pytest

from reconciler.worker.results import number, pictures, sound
from worker_threads import serving

NAN, INF = math.nan, math.inf
WAV = b"RIFF\x24\0\0\0WAVEfmt "
PNG = b"\x89PNG\r\n\x1a\n...."


class Returns:
    """Returns what it was made with, whatever it is asked."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def embed(self, texts: list[str]) -> Any:
        """Return it."""
        return self.value

    def rerank(self, query: str, documents: list[str]) -> Any:
        """Return it."""
        return self.value

    def classify(self, inputs: list[Any]) -> Any:
        """Return it."""
        return self.value

    def transcribe(self, audio: bytes) -> Any:
        """Return it."""
        return self.value

    def speak(self, text: str) -> Any:
        """Return it."""
        return self.value

    def image(self, prompt: str) -> Any:
        """Return it."""
        return self.value


ONE = "embed returned {}: a list of finite numbers is wanted"
WRONG: dict[str, tuple[str, Any, str]] = {
    "NaN": ("embedding", [[NAN, 1.0]], ONE.format("NaN")),
    "infinite": ("embedding", [[INF, -INF]], ONE.format("an infinite number")),
    "texts": ("embedding", [["1", "2"]], ONE.format("a text where a number belongs")),
    "true": ("embedding", [[True, 1.0]], ONE.format("true where a number belongs")),
    "null in a vector": ("embedding", [[None, 1.0]], ONE.format("null where a number belongs")),
    "null": ("embedding", [None], ONE.format("null for a text")),
    "nothing in it": ("embedding", [[]], ONE.format("an empty list for a text")),
    "nested": ("embedding", [[[1.0]]], ONE.format("a list where a number belongs")),
    "a dict": ("embedding", {"a": 1}, "embed returned a dict: a list of 1, one for each item, is wanted"),
    "a number": ("embedding", 3, "embed returned a int: a list of 1, one for each item, is wanted"),
    "too many": ("embedding", [[1.0], [2.0]], "embed returned 2 results for 1 items: a list of 1, *"),
    "very large": ("embedding", [[10**400]], ONE.format("a number that is too large")),
    "score NaN": ("rerank", [NAN], "rerank returned NaN: a finite number for each document is wanted"),
    "score a text": ("rerank", ["1"], "rerank returned a text where a number belongs: *"),
    "score true": ("rerank", [True], "rerank returned true where a number belongs: *"),
    "label null": (
        "classify",
        [None],
        "classify returned null where a number belongs: a label, or a dict, *",
    ),
    "label a list": ("classify", [["a"]], "classify returned a list where a number belongs: *"),
    "no text": (
        "asr",
        {"words": []},
        "transcribe returned a dict without it: a text, or a dict with a text *",
    ),
    "text null": (
        "asr",
        None,
        "transcribe returned null: a text, or a dict with a text as `text`, is wanted",
    ),
    "no bytes": ("tts", "x", "speak returned a text: bytes of a WAV, Ogg, FLAC or MP3 file are wanted"),
    "no sound": ("tts", b"RIFFxxxxAVI ", "speak returned 12 bytes that begin with b'RIFFxxxx': bytes of *"),
    "nothing": ("tts", b"", "speak returned no bytes: bytes of a WAV*"),
    "no picture": ("image", b"GIF89a", "image returned 6 bytes that begin with b'GIF89a': bytes of a PNG*"),
    "no pictures": ("image", [], "image returned an empty list: bytes of a PNG*"),
}
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "embedding": ("/v1/embeddings", {"input": "a"}),
    "rerank": ("/v1/rerank", {"query": "a", "documents": ["a"]}),
    "classify": ("/classify", {"input": "a"}),
    "tts": ("/v1/audio/speech", {"input": "a"}),
    "image": ("/v1/images/generations", {"prompt": "a"}),
}


def ask(client: httpx.Client, role: str, **more: Any) -> httpx.Response:
    """Ask at the path of a role."""
    if role == "asr":
        return client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"x")})
    path, body = PATHS[role]
    return client.post(path, json={**body, **more})


def check(answer: httpx.Response, sentence: str) -> None:
    """See that it is a failure of this sentence; `*` = it goes on."""
    message = answer.json()["error"]["message"]
    assert answer.status_code == 500
    assert message == sentence or (sentence.endswith("*") and message.startswith(sentence[:-1])), message


@pytest.mark.parametrize("name", WRONG)
def test_what_was_not_asked_for_is_no_answer(name: str) -> None:
    role, value, sentence = WRONG[name]
    with serving(Returns(value), role) as client:
        check(ask(client, role), sentence)
        if role == "embedding":
            check(ask(client, role, encoding_format="base64"), sentence)
        if role != "image":  # it has no proof of its own
            check(client.post("/probe"), sentence)


def test_vectors_of_several_lengths_and_of_numbers_too_large_for_32_bits() -> None:
    with serving(Returns([[1.0], [1.0, 2.0]]), "embedding") as client:
        lengths = "embed returned vectors of 1 and of 2 numbers: all must be as long"
        check(ask(client, "embedding", input=["a", "b"]), lengths)
    with serving(Returns([[1e300, 1e300]]), "embedding") as client:
        assert ask(client, "embedding").json()["data"][0]["embedding"] == [1e300, 1e300]
        narrow = "embed returned a number that 32 bits cannot hold: a list of finite numbers is wanted"
        check(ask(client, "embedding", encoding_format="base64"), narrow)


class Scalar:
    """Stands for a number of a numeric library."""

    def tolist(self) -> float:
        """Return it as Python's own."""
        return 0.5


@pytest.mark.parametrize("value", [[[1, 0.5]], [[1e308, 1e308, 1e308]], [[Scalar(), 1]], [(1.0,)]])
def test_vectors_that_are_fine(value: Any) -> None:
    with serving(Returns(value), "embedding") as client:
        answer = ask(client, "embedding")
        assert answer.status_code == 200, answer.text
        assert client.post("/probe").status_code == 200


def test_labels_and_what_a_missing_input_is_called() -> None:
    with serving(Returns([{"label": "x", "index": 9}]), "classify") as client:
        assert ask(client, "classify").json()["data"] == [{"index": 0, "label": "x"}]
        missing = client.post("/classify", json={"text": "a"})
        assert missing.status_code == 400
        assert missing.json()["error"]["message"] == "`input` must be one input or a list of inputs"


def test_sounds_and_pictures_that_are_fine() -> None:
    assert sound(WAV, None) == (WAV, "audio/wav")
    assert sound(bytearray(b"ID3x"), "mp3") == (b"ID3x", "audio/mpeg")
    assert sound(b"\0\0", "pcm") == (b"\0\0", "application/octet-stream")
    assert pictures([PNG, b"\xff\xd8\xff\xe0"]) == [PNG, b"\xff\xd8\xff\xe0"]
    assert number("rerank", 3, "") == 3


class Counts:
    """Makes one picture a call, though it is told how many are wanted."""

    def __init__(self) -> None:
        self.wanted: list[object] = []

    def image(self, prompt: str, **options: object) -> bytes:
        """Return one picture."""
        self.wanted.append(options["n"])
        return PNG


def test_as_many_pictures_as_were_asked_for() -> None:
    model = Counts()
    with serving(model, "image") as client:
        assert len(ask(client, "image", n=3).json()["data"]) == 3
    assert model.wanted == [3, 2, 1]


class Options:
    """Takes every option."""

    def chat(self, messages: object, **options: object) -> str:
        """Say which were given."""
        return " ".join(sorted(options))

    def embed(self, texts: list[str], **options: object) -> list[list[float]]:
        """Return a vector for each."""
        return [[1.0] for _ in texts]

    def transcribe(self, audio: bytes, **options: object) -> str:
        """Say which were given."""
        return " ".join(sorted(options))


def test_fields_called_like_what_is_given_by_position_are_passed_over() -> None:
    with serving(Options()) as client:
        body = {"messages": [{"role": "user"}], "self": 1, "seed": 1, "positional": 2}
        answer = client.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == "images positional seed"
    with serving(Options(), "embedding") as client:
        assert ask(client, "embedding", texts=1, self=2).status_code == 200
    with serving(Options(), "asr") as client:
        form = {"audio": "x", "self": "y", "language": "en"}
        answer = client.post("/v1/audio/transcriptions", data=form, files={"file": ("a", b"x")})
        assert answer.json() == {"text": "filename language"}
