"""The embedding model of desk C, on Metal where there is a Mac.

It needs torch and transformers in the environment that `python:` names (`.venv` beside this file):

    python3 -m venv .venv && .venv/bin/pip install torch transformers
"""

from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer


class Embedder:
    """Vectors of length one, from the first token of each text (as the BGE models make them)."""

    def __init__(self, weights: str, device: str = "cpu") -> None:
        kind = torch.float32 if device == "cpu" else torch.float16
        self.tokens = AutoTokenizer.from_pretrained(weights)
        self.model = AutoModel.from_pretrained(weights, dtype=kind).to(device).eval()
        self.device = device

    @torch.inference_mode()
    def embed(self, texts: list[str]) -> Any:
        batch = self.tokens(texts, padding=True, truncation=True, return_tensors="pt").to(self.device)
        first = self.model(**batch).last_hidden_state[:, 0]
        return torch.nn.functional.normalize(first.float(), dim=1)

    def empty_cache(self) -> None:
        """Called from time to time: what Metal keeps for later is given back."""
        if self.device == "mps":
            torch.mps.empty_cache()
