"""Draws the heights of landscapes: a diffusion UNet over onnxruntime that needs one step."""

import io
import re
import zlib
from typing import Any, Final

import numpy as np
import onnxruntime
from PIL import Image

SIZE: Final = 128
#: What the model was trained with: its noise, and how heights (metres) are put between -1 and 1.
_SIGMA: Final = 80.0
_HEIGHT: Final = 22.16864013671875
_SCALE: Final = 0.1


class Terrain:
    """Makes a height map for a prompt.

    The model reads no text: a number from 1 to 100 in it says how rough the ground is, and the whole is the seed.
    """

    def __init__(self, weights: str, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads that spin while they wait take the cores from other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])

    def image(self, prompt: str) -> bytes:
        """Return a PNG of 128 x 128 points; the same prompt makes the same image."""
        found = re.search(r"\b(100|[1-9]\d?)\b", prompt)
        roughness = int(found[1]) if found else 50
        noise = np.random.default_rng(zlib.crc32(prompt.encode())).standard_normal(
            (1, 1, SIZE, SIZE), np.float32
        )
        inputs = {
            "noisy": noise * np.float32(_SIGMA),
            "sigma": np.array([_SIGMA], np.float32),
            "difficulty": np.array([(roughness - 1) / 99], np.float32),
        }
        return png(heights(self.session.run(["denoised"], inputs)[0][0, 0]))


def heights(values: Any) -> Any:
    """Return metres for what the model says, from -1 to 1 on a scale that is finer near the ground."""
    unit = np.clip((values + 1) / 2, 0, 1)
    return _SCALE * np.sinh(unit * np.arcsinh(_HEIGHT / _SCALE))


def png(ground: Any) -> bytes:
    """Return a height map as a PNG file: the lowest point is black, the highest white."""
    span = max(float(np.ptp(ground)), 1e-6)
    file = io.BytesIO()
    Image.fromarray(((ground - ground.min()) * (255 / span)).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
