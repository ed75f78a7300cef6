"""What a class of a few lines answers at the paths of its role, and how a request that cannot be done is told."""

import base64
import json
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import openai
import pytest

from worker_process import Worker, events, worker

JSON = dict[str, Any]

EVERYTHING = '''
import asyncio

class Vector(list):
    """Stands for an array: what it holds is told by tolist()."""
    def tolist(self):
        return [float(x) for x in self]

class Model:
    def __init__(self, *, weights=None, device, threads, role, args, note="n"):
        self.made = dict(weights=weights, device=device, threads=threads, role=role, args=args, note=note)
    def embed(self, texts):
        if "bad" in texts:
            raise ValueError("no vector for bad")
        if "few" in texts:
            return []
        if "nan" in texts:
            return [[float("nan")] for _ in texts]
        return [Vector([len(t), 0.5]) for t in texts]
    def rerank(self, query, documents):
        return [d.count(query) for d in documents]
    def transcribe(self, audio, *, language=None, filename=""):
        return {"text": f"{len(audio)} {language} {filename}", "language": language, "segments": []}
    def speak(self, text, *, voice="v", speed=1.0):
        return b"RIFF....WAVE" + f"{text} {voice} {speed}".encode()
    def image(self, prompt, *, width=8, height=8):
        return b"\\x89PNG\\r\\n\\x1a\\n" + f"{prompt} {width}x{height}".encode()
    def classify(self, inputs):
        return ["odd" if len(str(n)) % 2 else {"label": "even", "score": 1.0} for n in inputs]
    def chat(self, messages, images, *, max_tokens=3):
        if messages[-1]["content"] == "early":
            raise RuntimeError("early")
        return self._pieces(len(images), max_tokens, messages[-1]["content"] == "late")
    def _pieces(self, images, count, late):
        for i in range(count):
            yield f"{i}{images} "
        if late:
            raise RuntimeError("late")
    async def complete(self, prompt, **options):
        await asyncio.sleep(0)
        return prompt + json_of(options)
    async def infer(self, payload):
        return {"made": self.made, "payload": payload}
    def count_tokens(self, text):
        return len(text.split())

def json_of(options):
    import json
    return json.dumps(options, sort_keys=True)
'''


ROLES = ("embedding", "rerank", "asr", "tts", "image", "classify", "vision", "completion")
OPTIONS = ("--threads", "3", "--device", "cpu", "--", "--x", "y")


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Worker]]:
    """One worker a role, all of one class; all are started before any is waited for."""
    with ExitStack() as stack:
        found = {
            role: stack.enter_context(
                worker(tmp_path_factory.mktemp(role), EVERYTHING, role, *OPTIONS, ready=False)
            )
            for role in ROLES
        }
        yield {role: one.wait_ready() for role, one in found.items()}


ANSWERS: dict[str, tuple[str, str, JSON, JSON]] = {
    "one text": (
        "embedding",
        "/v1/embeddings",
        {"input": "abc", "model": "m"},
        {
            "object": "list",
            "model": "m",
            "data": [{"object": "embedding", "index": 0, "embedding": [3.0, 0.5]}],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        },
    ),
    "texts": (
        "embedding",
        "/v1/embeddings",
        {"input": ["a b", "c"], "user": "u", "dimensions": None},
        {
            "object": "list",
            "model": "m",
            "data": [
                {"object": "embedding", "index": 0, "embedding": [3.0, 0.5]},
                {"object": "embedding", "index": 1, "embedding": [1.0, 0.5]},
            ],
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        },
    ),
    "rerank": (
        "rerank",
        "/v1/rerank",
        {"query": "a", "documents": ["b", "aa", {"text": "a"}], "top_n": 2, "return_documents": True},
        {
            "object": "list",
            "model": "m",
            "results": [
                {"index": 1, "relevance_score": 2.0, "document": {"text": "aa"}},
                {"index": 2, "relevance_score": 1.0, "document": {"text": "a"}},
            ],
            "usage": {"prompt_tokens": 4, "total_tokens": 4},
        },
    ),
    "classify": (
        "classify",
        "/classify",
        {"input": [1, "ab"]},
        {
            "object": "list",
            "model": "m",
            "data": [{"index": 0, "label": "odd"}, {"index": 1, "label": "even", "score": 1.0}],
        },
    ),
    "what was given to the class": (
        "classify",
        "/infer",
        {"model": "m", "x": [1]},
        {
            "made": {
                "weights": None,
                "device": "cpu",
                "threads": 3,
                "role": "classify",
                "args": ["--x", "y"],
                "note": "n",
            },
            "payload": {"x": [1]},
        },
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(workers: dict[str, Worker], name: str) -> None:
    role, path, body, expected = ANSWERS[name]
    answer = workers[role].post(path, body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == expected


def test_vectors_as_base64(workers: dict[str, Worker]) -> None:
    answer = workers["embedding"].post("/v1/embeddings", {"input": "abc", "encoding_format": "base64"})
    packed = base64.b64decode(answer.json()["data"][0]["embedding"])
    assert struct.unpack("<2f", packed) == (3.0, 0.5)


def test_sound_and_pictures(workers: dict[str, Worker]) -> None:
    sound = workers["tts"].post(
        "/v1/audio/speech", {"input": "hi", "voice": "w", "instructions": "not taken"}
    )
    assert sound.content == b"RIFF....WAVEhi w 1.0"
    assert sound.headers["content-type"] == "audio/wav"
    asked = {"prompt": "cat", "n": 2, "size": "16x32", "quality": "not taken"}
    pictures = workers["image"].post("/v1/images/generations", asked).json()["data"]
    assert [base64.b64decode(p["b64_json"]) for p in pictures] == [b"\x89PNG\r\n\x1a\ncat 16x32"] * 2


@pytest.mark.parametrize(
    ("form", "kind", "expected"),
    [
        ("json", "application/json", {"text": "5 en a.wav"}),
        ("text", "text/plain; charset=utf-8", "5 en a.wav\n"),
        (
            "verbose_json",
            "application/json",
            {"task": "transcribe", "text": "5 en a.wav", "language": "en", "segments": []},
        ),
    ],
)
def test_transcripts(workers: dict[str, Worker], form: str, kind: str, expected: object) -> None:
    answer = workers["asr"].client.post(
        "/v1/audio/transcriptions",
        data={"model": "m", "language": "en", "response_format": form, "temperature": "0"},
        files={"file": ("a.wav", b"\r\n--x")},
    )
    assert answer.headers["content-type"] == kind
    assert (answer.json() if kind.endswith("json") else answer.text) == expected


def image_message() -> JSON:
    """Return a message with a text and two images."""
    url = "data:image/png;base64," + base64.b64encode(b"png").decode()
    image = {"type": "image_url", "image_url": {"url": url}}
    return {"role": "user", "content": [{"type": "text", "text": "what is it"}, image, image]}


def test_a_chat_whole_with_images_and_usage(workers: dict[str, Worker]) -> None:
    body = {"messages": [image_message()], "max_completion_tokens": 2}
    answer = workers["vision"].post("/v1/chat/completions", body).json()
    assert answer["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "02 12 "}, "finish_reason": "stop"}
    ]
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert answer["object"] == "chat.completion"


def test_a_chat_streamed(workers: dict[str, Worker]) -> None:
    body = {
        "messages": [{"role": "user", "content": "hi you"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = workers["vision"].post("/v1/chat/completions", body)
    assert answer.headers["content-type"] == "text/event-stream"
    *chunks, usage, done = events(answer)
    assert done == "[DONE]"
    assert usage["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "00 "},
        {"content": "10 "},
        {"content": "20 "},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_completion_gets_every_option_if_it_takes_any(workers: dict[str, Worker]) -> None:
    body = {"prompt": "p", "max_tokens": 4, "stop": ["x"], "model": "m", "seed": None}
    answer = workers["completion"].post("/v1/completions", body).json()
    assert answer["choices"][0]["text"] == "p" + json.dumps({"max_tokens": 4, "stop": ["x"]})
    streamed = events(workers["completion"].post("/v1/completions", {"prompt": "p", "stream": True}))
    assert [event["choices"][0]["text"] for event in streamed[:-1]] == ["p{}", ""]


def test_what_fails_in_a_stream(workers: dict[str, Worker]) -> None:
    def ask(word: str) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": word}], "stream": True}
        return workers["vision"].post("/v1/chat/completions", body)

    early = ask("early")
    assert early.status_code == 500
    assert early.json()["error"]["message"] == "RuntimeError: early"
    *pieces, last = events(ask("late"))
    assert [piece["choices"][0]["delta"]["content"] for piece in pieces] == ["00 ", "10 ", "20 "]
    assert last["error"]["message"] == "RuntimeError: late"
    assert ask("fine").status_code == 200


BAD: dict[str, tuple[str, str, object, int, str]] = {
    "no JSON object": ("embedding", "/v1/embeddings", [1], 400, "must be a JSON object"),
    "no input": ("embedding", "/v1/embeddings", {}, 400, "input must be a text or a list of texts"),
    "numbers": ("embedding", "/v1/embeddings", {"input": [1]}, 400, "input must be a text"),
    "nothing to embed": ("embedding", "/v1/embeddings", {"input": []}, 400, "input must be a text"),
    "format": (
        "embedding",
        "/v1/embeddings",
        {"input": "a", "encoding_format": "hex"},
        400,
        "float or base64",
    ),
    "raised": ("embedding", "/v1/embeddings", {"input": "bad"}, 500, "ValueError: no vector for bad"),
    "too few": ("embedding", "/v1/embeddings", {"input": "few"}, 500, "embed returned 0 results for 1 items"),
    "NaN": ("embedding", "/v1/embeddings", {"input": "nan"}, 500, "embed returned NaN: a list of"),
    "documents": ("rerank", "/v1/rerank", {"query": "a", "documents": [1]}, 400, "documents must be texts"),
    "top_n": ("rerank", "/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, 400, "top_n must be"),
    "no form": ("asr", "/v1/audio/transcriptions", {}, 415, "multipart/form-data"),
    "size": ("image", "/v1/images/generations", {"prompt": "a", "size": "0x8"}, 400, "size must be as"),
    "url": ("image", "/v1/images/generations", {"prompt": "a", "response_format": "url"}, 400, "b64_json"),
    "remote image": (
        "vision",
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
            ]
        },
        400,
        "an image must be sent as data:",
    ),
    "messages": ("vision", "/v1/chat/completions", {"messages": "hi"}, 400, "messages must be a list"),
    "another role's path": ("tts", "/v1/embeddings", {"input": "a"}, 404, "there is /infer, /load_state"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_request_that_cannot_be_done(workers: dict[str, Worker], name: str) -> None:
    role, path, body, status, message = BAD[name]
    answer = workers[role].post(path, body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error["message"]
    assert error["type"] == ("server_error" if status == 500 else "invalid_request_error")
    assert workers[role].health() == "ok"


def test_the_traceback_is_in_the_log(workers: dict[str, Worker]) -> None:
    workers["embedding"].post("/v1/embeddings", {"input": "bad"})
    log = workers["embedding"].text()
    assert 'raise ValueError("no vector for bad")' in log


@pytest.mark.parametrize("role", ROLES)
def test_the_proof_of_a_role_calls_the_class(workers: dict[str, Worker], role: str) -> None:
    before = workers[role].stats()["calls"]
    answer = workers[role].post("/probe")
    assert answer.json() == {"status": "ok"}, answer.text
    assert (workers[role].stats()["calls"] > before) == (role != "image")


def test_a_body_in_chunks(workers: dict[str, Worker]) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"input": '
        yield b'"abc"}'

    answer = workers["embedding"].client.post("/v1/embeddings", content=pieces())
    assert answer.json()["data"][0]["embedding"] == [3.0, 0.5]


def test_a_page_in_a_browser_has_no_state_saved(workers: dict[str, Worker]) -> None:
    answer = workers["tts"].post("/save_state", {"path": "/tmp/x"}, headers={"Origin": "http://evil"})
    assert answer.status_code == 403


def test_the_library_of_openai_understands_it(workers: dict[str, Worker]) -> None:
    with ExitStack() as stack:

        def client(role: str) -> openai.OpenAI:
            url = f"http://127.0.0.1:{workers[role].port}/v1"
            http = stack.enter_context(openai.DefaultHttpxClient(trust_env=False, verify=False))
            return openai.OpenAI(base_url=url, api_key="none", http_client=http, max_retries=0)

        vectors = client("embedding").embeddings.create(model="m", input=["abc", "d"])
        assert [item.embedding for item in vectors.data] == [[3.0, 0.5], [1.0, 0.5]]
        messages: Any = [{"role": "user", "content": "hi"}]
        stream = client("vision").chat.completions.create(model="m", messages=messages, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "00 10 20 "
        said = client("asr").audio.transcriptions.create(model="m", file=("a.wav", b"RIFF"), language="de")
        assert said.text == "4 de a.wav"
        sound = client("tts").audio.speech.create(model="m", input="hi", voice="alloy")
        assert sound.content == b"RIFF....WAVEhi alloy 1.0"
        picture = client("image").images.generate(model="m", prompt="cat", size="256x256")
        assert picture.data is not None
        assert picture.data[0].b64_json == base64.b64encode(b"\x89PNG\r\n\x1a\ncat 256x256").decode()
        with pytest.raises(openai.InternalServerError, match="no vector for bad"):
            client("embedding").embeddings.create(model="m", input="bad")
