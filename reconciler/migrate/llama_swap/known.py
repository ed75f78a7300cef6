"""The servers that have an engine of their own, by the program that starts them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Server:
    """One server."""

    engine: str
    #: What it is for if nothing says so.
    role: str = "chat"
    #: A word before the flags, behind which the model may stand: `vllm serve MODEL`.
    verb: str = ""
    #: Names of the module that `python -m` starts.
    modules: tuple[str, ...] = ()


SERVERS: Final = {
    "vllm": Server("vllm", verb="serve", modules=("vllm.entrypoints.openai.api_server",)),
    "sglang": Server("sglang", verb="serve", modules=("sglang.launch_server",)),
    "mlx_lm.server": Server("mlx", modules=("mlx_lm.server", "mlx_lm")),
    "mlx_vlm.server": Server("mlx-vlm", modules=("mlx_vlm.server", "mlx_vlm")),
    "whisper-server": Server("whisper.cpp", "asr"),
    "sd-server": Server("sd.cpp", "image"),
    "text-embeddings-router": Server("tei", "embedding"),
    "infinity_emb": Server("infinity", "embedding", "v2"),
}
