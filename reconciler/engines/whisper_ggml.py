"""The header of whisper.cpp's own weights (`ggml-base.bin`), and what whisper.cpp makes of it in memory."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.memory import Estimate
from reconciler.memory.gguf import WeightsError
from reconciler.memory.regular import read_regular

_MAGIC: Final = b"lmgg"
#: Magic and eleven whole numbers.
_HEADER: Final = struct.Struct("<4s11i")
_OTHERS: Final = {
    b"GGUF": "is a GGUF file",
    b"GGML": "is an old GGML file of llama.cpp",
    b"PK\x03\x04": "is a PyTorch checkpoint",
    b"vers": "is a Git LFS pointer: fetch the file itself (git lfs pull)",
    b"<!DO": "is a web page, not a model",
    b"<htm": "is a web page, not a model",
}
#: Larger than any Whisper by far: what claims more is no header.
_MOST_LAYERS, _MOST_WIDTH, _MOST_CONTEXT, _MOST_WORDS = 256, 16_384, 1 << 20, 1 << 24
#: Keys and values are in 16 bits, for a context rounded up to this many places.
_HALF, _PLACES = 2, 256
_FLOAT: Final = 4
#: Program, libraries and the audio itself. Not measured: an allowance.
_OVERHEAD: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class WhisperModel:
    """The shape of a Whisper model, and the bytes of its file."""

    size: int
    words: int
    audio_context: int
    audio_width: int
    audio_heads: int
    audio_layers: int
    text_context: int
    text_width: int
    text_heads: int
    text_layers: int


def read(path: Path) -> WhisperModel:
    """Return what the header says. Blocks. Raises `WeightsError`, which says what the file is instead."""
    try:
        head, size = read_regular(path, _HEADER.size), path.stat().st_size
    except FileNotFoundError:
        raise WeightsError(f"the weights {path} do not exist") from None
    except IsADirectoryError:
        raise WeightsError(f"{path} is a folder: name the file in it (ggml-*.bin)") from None
    except OSError as error:
        raise WeightsError(f"the weights {path} cannot be read: {error.strerror}") from error
    if head[:4] != _MAGIC:
        what = _OTHERS.get(head[:4], "is no weights file of whisper.cpp" if head else "is empty")
        raise WeightsError(f"{path} {what}: whisper.cpp wants its own format (ggml-*.bin)")
    if len(head) < _HEADER.size:
        raise WeightsError(f"{path} is cut off within its header: fetch it again")
    _, words, *numbers, _mels, _type = _HEADER.unpack(head)
    model = WhisperModel(size, words, *numbers)
    if not _plausible(model):
        raise WeightsError(f"{path} has a header that makes no sense: fetch it again")
    return model


def _plausible(model: WhisperModel) -> bool:
    bounds = (
        (model.words, _MOST_WORDS),
        (model.audio_context, _MOST_CONTEXT),
        (model.audio_width, _MOST_WIDTH),
        (model.audio_heads, _MOST_WIDTH),
        (model.audio_layers, _MOST_LAYERS),
        (model.text_context, _MOST_CONTEXT),
        (model.text_width, _MOST_WIDTH),
        (model.text_heads, _MOST_WIDTH),
        (model.text_layers, _MOST_LAYERS),
    )
    return all(0 < value <= most for value, most in bounds)


def _padded(places: int) -> int:
    return -(-places // _PLACES) * _PLACES


def estimate(model: WhisperModel) -> Estimate:
    """Return what it holds once loaded, without flash attention, which is the larger of the two.

    Weights are copied as they are. The graphs are bounded by their largest results: the convolution's, the scores of
    each head over all of the audio, and one line of words for each place of the text.
    """
    audio, text = _padded(model.audio_context), _padded(model.text_context)
    own = 2 * model.text_layers * model.text_width * text * _HALF
    cross = 2 * model.text_layers * model.text_width * audio * _HALF
    scratch = 2 * model.audio_width * audio * _HALF
    line = model.audio_width * model.audio_context * _FLOAT
    scores = model.audio_heads * model.audio_context * audio * _FLOAT
    words = model.words * model.text_context * _FLOAT
    # Convolution, encoder, cross attention, decoder: the factors are those of published logs, rounded up.
    compute = 6 * line + (scores + 4 * line) + 2 * line + words * 11 // 10
    return Estimate(weights=model.size, context=own + cross + scratch, compute=compute, overhead=_OVERHEAD)
