"""How many bytes the elements of a tensor take. The numbers are those of GGML's `enum ggml_type`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: GGML type number: (elements in a block, bytes of a block), as `ggml_blck_size` and `ggml_type_size` give them.
#: Numbers that are left out never were in files, or were removed from the format (`REMOVED`). Of 42 (Q2_0) there are
#: files with blocks of two sizes, so what its tensors take is told by where they begin.
BLOCKS: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(
    {
        0: (1, 4),  # F32
        1: (1, 2),  # F16
        2: (32, 18),  # Q4_0
        3: (32, 20),  # Q4_1
        6: (32, 22),  # Q5_0
        7: (32, 24),  # Q5_1
        8: (32, 34),  # Q8_0
        9: (32, 36),  # Q8_1
        10: (256, 84),  # Q2_K
        11: (256, 110),  # Q3_K
        12: (256, 144),  # Q4_K
        13: (256, 176),  # Q5_K
        14: (256, 210),  # Q6_K
        15: (256, 292),  # Q8_K
        16: (256, 66),  # IQ2_XXS
        17: (256, 74),  # IQ2_XS
        18: (256, 98),  # IQ3_XXS
        19: (256, 50),  # IQ1_S
        20: (32, 18),  # IQ4_NL
        21: (256, 110),  # IQ3_S
        22: (256, 82),  # IQ2_S
        23: (256, 136),  # IQ4_XS
        24: (1, 1),  # I8
        25: (1, 2),  # I16
        26: (1, 4),  # I32
        27: (1, 8),  # I64
        28: (1, 8),  # F64
        29: (256, 56),  # IQ1_M
        30: (1, 2),  # BF16
        34: (256, 54),  # TQ1_0
        35: (256, 66),  # TQ2_0
        39: (32, 17),  # MXFP4
        40: (64, 36),  # NVFP4
        41: (128, 18),  # Q1_0
    }
)

#: GGML type number -> its name.
NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "F32",
        1: "F16",
        2: "Q4_0",
        3: "Q4_1",
        6: "Q5_0",
        7: "Q5_1",
        8: "Q8_0",
        9: "Q8_1",
        10: "Q2_K",
        11: "Q3_K",
        12: "Q4_K",
        13: "Q5_K",
        14: "Q6_K",
        15: "Q8_K",
        16: "IQ2_XXS",
        17: "IQ2_XS",
        18: "IQ3_XXS",
        19: "IQ1_S",
        20: "IQ4_NL",
        21: "IQ3_S",
        22: "IQ2_S",
        23: "IQ4_XS",
        24: "I8",
        25: "I16",
        26: "I32",
        27: "I64",
        28: "F64",
        29: "IQ1_M",
        30: "BF16",
        34: "TQ1_0",
        35: "TQ2_0",
        39: "MXFP4",
        40: "NVFP4",
        41: "Q1_0",
        42: "Q2_0",
    }
)
#: Numbers that meant something in files once, and that no build has taken since.
REMOVED: Final[Mapping[int, str]] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
)
