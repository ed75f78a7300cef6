"""How coarsely the weights of a GGUF file are kept: its own name for it, and the bits they really take."""

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Final

from reconciler.memory.gguf.header import Header
from reconciler.memory.gguf.types_table import NAMES

#: `general.file_type` -> what people call it (`enum llama_ftype`).
_FILE_TYPES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
#: Set in the file type where a program guessed it.
_GUESSED: Final = 1024
#: Letters and number of a name: types of one kind share them (`Q4_K`, `Q4_K_M`).
_KIND: Final = 3


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How the matrices of a file are kept."""

    #: `Q4_K_M`, as the file says; where it says nothing, or what is not true, the type most of its bytes have.
    name: str
    #: Bits one weight takes on average, scales included.
    bits: float
    #: The type most of the bytes have.
    main: str


def quantisation(header: Header) -> Quantisation | None:
    """Return how the matrices are kept, or None if there are none of known type. Vectors are left out: all keep them.

    >>> quantisation(Header(3, {}, (), 0)) is None
    True
    """
    sizes: Counter[int] = Counter()
    elements = 0
    for tensor in header.tensors:
        if len(tensor.shape) > 1 and tensor.size is not None and tensor.type in NAMES:
            sizes[tensor.type] += tensor.size
            elements += prod(tensor.shape)
    if not elements:
        return None
    main = NAMES[max(sorted(sizes), key=lambda kind: sizes[kind])]
    stated = header.keys.get("general.file_type")
    name = _FILE_TYPES.get(stated & ~_GUESSED, "") if isinstance(stated, int) else ""
    if name[:_KIND] != main[:_KIND]:
        name = main
    return Quantisation(name, 8 * sizes.total() / elements, main)
