"""Reads the text in images: PP-OCRv6, whose weights are in the package rapidocr."""

import io
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR


class Ocr:
    """Answers a chat with an image in it with the lines it reads there."""

    def __init__(self, threads: int) -> None:
        self.engine = RapidOCR(
            params={
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                # The side that texts are looked for in: by default small images are blown up, to 650 MB of memory.
                "Det.limit_type": "max",
                "Det.limit_side_len": 960,
                "Global.log_level": "warning",
            }
        )

    def chat(self, messages: Sequence[Any], images: Sequence[bytes]) -> str:
        """Return the text of all images, a line for a line; what the messages ask makes no difference."""
        lines: list[str] = []
        for image in images:
            lines += self.engine(image).txts or ()
        return "\n".join(lines)

    def probe(self) -> bool:
        """Read one word, so that all weights are in memory when the first request comes."""
        picture = Image.new("RGB", (160, 60), "white")
        ImageDraw.Draw(picture).text((20, 15), "ready", fill="black", font=ImageFont.load_default(28))
        file = io.BytesIO()
        picture.save(file, "PNG")
        return self.chat([], [file.getvalue()]) == "ready"
