"""The three PyTorch models of desk A, each in a process of its own.

They need torch and transformers in the environment that `python:` names (`.venv` beside this file):

    python3 -m venv .venv && .venv/bin/pip install torch transformers pillow
"""

import base64
import io
from typing import Any

import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)


class Embedder:
    """Vectors of length one, from the first token of each text (as the BGE models make them)."""

    def __init__(self, weights: str, device: str = "cpu") -> None:
        self.tokens = AutoTokenizer.from_pretrained(weights)
        self.model = AutoModel.from_pretrained(weights).to(device).eval()
        self.device = device
        self.served = 0

    @torch.inference_mode()
    def embed(self, texts: list[str]) -> Any:
        batch = self.tokens(texts, padding=True, truncation=True, return_tensors="pt").to(self.device)
        first = self.model(**batch).last_hidden_state[:, 0]
        self.served += len(texts)
        return torch.nn.functional.normalize(first.float(), dim=1)

    def save_state(self, folder: str) -> None:
        with open(f"{folder}/served", "w", encoding="ascii") as file:
            file.write(str(self.served))

    def load_state(self, folder: str) -> None:
        with open(f"{folder}/served", encoding="ascii") as file:
            self.served = int(file.read())


class Classifier:
    """The three likeliest labels of each picture, which comes as base64 or as a data URL."""

    def __init__(self, weights: str, device: str = "cpu") -> None:
        # Half precision, but for CPUs, of which many are slower with it than without.
        kind = torch.float32 if device == "cpu" else torch.float16
        self.prepare = AutoImageProcessor.from_pretrained(weights)
        self.model = AutoModelForImageClassification.from_pretrained(weights, dtype=kind).to(device).eval()
        self.device, self.kind = device, kind

    @torch.inference_mode()
    def classify(self, inputs: list[str]) -> list[Any]:
        pictures = [Image.open(io.BytesIO(_decoded(text))).convert("RGB") for text in inputs]
        pixels = self.prepare(pictures, return_tensors="pt")["pixel_values"].to(self.device, self.kind)
        chances = self.model(pixels).logits.float().softmax(dim=1)
        best = chances.topk(min(3, chances.shape[1]), dim=1)
        names = self.model.config.id2label
        found = []
        for chances_of_one, numbers in zip(best.values, best.indices, strict=True):
            pairs = zip(chances_of_one, numbers, strict=True)
            labels = [{"label": names[int(n)], "score": round(float(p), 4)} for p, n in pairs]
            found.append({**labels[0], "next": labels[1:]})
        return found

    def probe(self) -> None:
        """What proves that it works: a picture of one colour."""
        picture = io.BytesIO()
        Image.new("RGB", (32, 32), "grey").save(picture, "PNG")
        self.classify([base64.b64encode(picture.getvalue()).decode()])


class Retriever:
    """How well each passage answers a question, by a cross-encoder."""

    def __init__(self, weights: str, device: str = "cpu") -> None:
        kind = torch.float32 if device == "cpu" else torch.float16
        self.tokens = AutoTokenizer.from_pretrained(weights)
        model = AutoModelForSequenceClassification.from_pretrained(weights, dtype=kind)
        self.model = model.to(device).eval()
        self.device = device

    @torch.inference_mode()
    def rerank(self, query: str, documents: list[str]) -> list[float]:
        batch = self.tokens(
            [query] * len(documents), documents, padding=True, truncation=True, return_tensors="pt"
        )
        scores: list[float] = self.model(**batch.to(self.device)).logits[:, 0].float().sigmoid().tolist()
        return scores


def _decoded(text: str) -> bytes:
    """Return the bytes of base64, with or without what a data URL puts before it."""
    return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text)
