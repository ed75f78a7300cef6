"""all-MiniLM-L6-v2 in numpy, from the GGUF file that llama.cpp serves: sentences become vectors of length 1."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf import GGUFReader
from tokenizers import Tokenizer

HEADS: Final = 12
LAYERS: Final = 6
#: Tokens of a text that count; the model was trained with no more than that.
LONGEST: Final = 256


class MiniLM:
    """A BERT of six layers, some 90 MB in memory."""

    def __init__(self, folder: Path) -> None:
        reader = GGUFReader(folder / "model.gguf")
        self.weights = {t.name: np.asarray(t.data, dtype=np.float32) for t in reader.tensors}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(LONGEST)
        self.tokenizer.no_padding()

    def vectors(self, texts: Sequence[str]) -> Any:
        """Return one row for each text; the product of two rows is the cosine of the texts."""
        return np.stack([self._vector(self.tokenizer.encode(text).ids) for text in texts])

    def _vector(self, ids: list[int]) -> Any:
        w = self.weights
        x = w["token_embd.weight"][ids] + w["position_embd.weight"][: len(ids)] + w["token_types.weight"][0]
        x = self._norm(x, "token_embd_norm")
        for layer in range(LAYERS):
            name = f"blk.{layer}"
            x = self._norm(x + self._attend(x, name), f"{name}.attn_output_norm")
            inner = _gelu(self._linear(x, f"{name}.ffn_up"))
            x = self._norm(x + self._linear(inner, f"{name}.ffn_down"), f"{name}.layer_output_norm")
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _attend(self, x: Any, name: str) -> Any:
        def heads(part: str) -> Any:
            return self._linear(x, f"{name}.attn_{part}").reshape(len(x), HEADS, -1).swapaxes(0, 1)

        query, key, value = heads("q"), heads("k"), heads("v")
        scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return self._linear(mixed.swapaxes(0, 1).reshape(len(x), -1), f"{name}.attn_output")

    def _linear(self, x: Any, name: str) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x: Any, name: str) -> Any:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    """Return x times the chance that a normal variable is below it, by the usual approximation."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
