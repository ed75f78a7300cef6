"""A model of twenty lines, without any dependency: a text's vector is made of its pieces of three letters."""

import json
import math
from pathlib import Path


class Words:
    def __init__(self, size=256):
        self.size = size
        self.served = 0

    def embed(self, texts):
        self.served += len(texts)
        return [self.vector(text.lower()) for text in texts]

    def vector(self, text):
        found = [0.0] * self.size
        for i in range(len(text)):
            found[int.from_bytes(text[i : i + 3].encode(), "big") % self.size] += 1.0
        length = math.sqrt(sum(x * x for x in found)) or 1.0
        return [x / length for x in found]

    def infer(self, payload):
        return {"served": self.served}

    def save_state(self, folder):
        Path(folder, "served.json").write_text(json.dumps(self.served))

    def load_state(self, folder):
        self.served = json.loads(Path(folder, "served.json").read_text())
