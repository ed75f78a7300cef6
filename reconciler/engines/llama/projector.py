"""What turning a picture or sound into tokens takes besides the projector's weights (`--mmproj`)."""

from typing import Final

from reconciler.memory.gguf import Weights
from reconciler.memory.gguf.keys import Keys, ShapeUnknown

_FLOAT: Final = 4


def compute_bytes(projector: Weights, *, flash: bool = False) -> int:
    """Return the bytes of its compute buffer for the largest picture its header states.

    All patches are computed at once, each looking at each; with flash attention that takes no room of its own. Where
    the header does not say how many there are, as much as the projector's own weights is set aside.
    """
    keys = Keys(projector.header.keys, "clip.vision")
    try:
        image, patch = keys.number("image_size"), keys.number("patch_size")
        embedding, inner = keys.number("embedding_length"), keys.number("feed_forward_length")
        heads = keys.number("attention.head_count")
    except ShapeUnknown:
        return projector.tensor_bytes
    patches = (image // max(1, patch)) ** 2 + 1
    if flash:
        return _FLOAT * patches * (4 * embedding + 2 * inner)
    return _FLOAT * patches * (6 * embedding + 3 * inner + heads * patches)
