"""What is read out of llama.cpp's log: lines of real servers, cut to those that matter."""

from dataclasses import replace

import pytest

from reconciler.core.memory import Said
from reconciler.engines import registry

ENGINE = registry.get("llama.cpp")
MIB = 1024 * 1024

START = "0.00.003.718 I srv    load_model: loading model 'own.gguf'\n"
MMAP = (
    START
    + """\
0.00.177.861 I print_info: file size   = 235.16 MiB (7.36 BPW)
0.01.333.269 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.01.350.006 I load_tensors:   CPU_Mapped model buffer size =   235.16 MiB
0.01.350.051 I load_tensors:   CPU_REPACK model buffer size =    12.66 MiB
0.01.350.100 I llama_context: constructing llama_context
0.01.350.101 I llama_context: n_seq_max             = 1
0.01.350.102 I llama_context: n_ctx                 = 8192
0.01.350.103 I llama_context: n_ctx_seq             = 8192
0.01.383.155 I llama_context:        CPU  output buffer size =     1.00 MiB
0.01.383.175 I llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells
0.01.383.286 I llama_kv_cache:        CPU KV buffer size =    24.00 MiB
0.01.398.244 I llama_kv_cache: size =   24.00 MiB (  8192 cells,   3 layers,  1/1 seqs), K (f16):   12.00 MiB
0.01.398.323 I llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells
0.01.398.403 I llama_kv_cache:        CPU KV buffer size =    15.00 MiB
0.01.408.045 I llama_kv_cache: size =   15.00 MiB (  1024 cells,  15 layers,  1/1 seqs), K (f16):    7.50 MiB
0.01.411.077 I sched_reserve:        CPU compute buffer size =    27.28 MiB
0.02.023.190 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 8192, kv_unified = 'false'
"""
)
#: At the usual level of a server that is not ours only some of these lines are there.
NONE = (
    START
    + """\
0.03.263.133 I load_tensors:          CPU model buffer size =   222.51 MiB
0.03.266.695 I load_tensors:   CPU_REPACK model buffer size =    12.66 MiB
0.03.743.122 I llama_kv_cache: size =   24.00 MiB (  8192 cells,   3 layers,  1/1 seqs), K (f16):   12.00 MiB
0.03.773.520 I llama_kv_cache: size =   15.00 MiB (  1024 cells,  15 layers,  1/1 seqs), K (f16):    7.50 MiB
0.03.781.633 I sched_reserve:        CPU compute buffer size =    27.28 MiB
0.07.381.243 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 8192, kv_unified = 'false'
"""
)
FOUR_SLOTS = (
    START
    + """\
0.02.073.720 I llama_kv_cache: size =   96.00 MiB (  8192 cells,   3 layers,  4/4 seqs), K (f16):   48.00 MiB
0.02.114.664 I llama_kv_cache: size =   60.00 MiB (  1024 cells,  15 layers,  4/4 seqs), K (f16):   30.00 MiB
0.02.117.750 I sched_reserve:        CPU compute buffer size =    27.28 MiB
0.06.641.099 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'false'
"""
)
#: The whole file is seen from the CPU and, but for one table, from the GPU: the parts overlap.
METAL = (
    START
    + """\
print_info: file size   = 368.00 MiB (8.50 BPW)
load_tensors:   CPU_Mapped model buffer size =   364.00 MiB
load_tensors:  MTL0_Mapped model buffer size =   367.00 MiB
llama_context: n_ctx         = 4096
llama_kv_cache:       MTL0 KV buffer size =   448.00 MiB
sched_reserve:       MTL0 compute buffer size =   300.00 MiB
sched_reserve:        CPU compute buffer size =    10.00 MiB
"""
)
CUDA_WITH_DRAFT = (
    START
    + """\
load_tensors:        CUDA0 model buffer size =  4000.00 MiB
load_tensors:   CPU_Mapped model buffer size =   500.00 MiB
llama_context: constructing llama_context
llama_context: n_ctx                 = 16384
llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB
sched_reserve:      CUDA0 compute buffer size =   250.00 MiB
sched_reserve:      CUDA0 compute buffer size =   260.00 MiB
sched_reserve:  CUDA_Host compute buffer size =    40.00 MiB
srv    load_model: loading draft model 'small.gguf'
load_tensors:        CUDA0 model buffer size =   700.00 MiB
llama_context: constructing llama_context
llama_context: n_ctx                 = 4096
llama_kv_cache:      CUDA0 KV buffer size =   128.00 MiB
sched_reserve:      CUDA0 compute buffer size =    90.00 MiB
"""
)
RECURRENT = (
    START
    + """\
load_tensors:   CPU_Mapped model buffer size =   502.16 MiB
llama_context: n_ctx                 = 4096
llama_kv_cache:        CPU KV buffer size =    12.00 MiB
llama_kv_cache: size =   12.00 MiB (  4096 cells,   3 layers,  1/1 seqs), K (f16):    6.00 MiB, V (f16):    6.00 MiB
llama_memory_recurrent:        CPU RS buffer size =     0.07 MiB
llama_memory_recurrent: size =    0.07 MiB (     1 cells,  12 layers,  1 seqs), R (f32):    0.07 MiB
sched_reserve:        CPU compute buffer size =    38.02 MiB
"""
)
OLD = """\
main: loading model
llm_load_tensors:        CPU buffer size =  4437.80 MiB
llama_new_context_with_model: n_ctx      = 4096
llama_new_context_with_model: KV self size  =  512.00 MiB, K (f16):  256.00 MiB, V (f16):  256.00 MiB
llama_new_context_with_model:        CPU compute buffer size =   296.01 MiB
"""


def said(
    weights: float | None,
    context: float | None,
    compute: float | None,
    tokens: int | None = None,
    gpu: float | None = None,
) -> Said:
    def in_bytes(mib: float | None) -> int | None:
        return None if mib is None else round(mib * MIB)

    return Said(in_bytes(weights), in_bytes(context), in_bytes(compute), in_bytes(gpu), tokens)


CASES = {
    "mmap": (MMAP, said(235.16 + 12.66, 39, 28.28, 8192)),
    "none": (NONE, said(235.17, 39, 27.28, 8192)),
    "four slots": (FOUR_SLOTS, said(None, 156, 27.28, 32768)),
    "one pool for four slots": (FOUR_SLOTS.replace("'false'", "'true'"), said(None, 156, 27.28, 8192)),
    "Metal": (METAL, said(368, 448, 310, 4096, gpu=367)),
    "CUDA and a draft model": (CUDA_WITH_DRAFT, said(5200, 1152, 390, 16384)),
    "states": (RECURRENT, said(502.16, 12.07, 38.02, 4096)),
    "an old build": (OLD, said(None, 512, 296.01, 4096)),
    "the last of several starts": (METAL + FOUR_SLOTS + MMAP, said(247.82, 39, 28.28, 8192)),
    "a start that said nothing yet": (MMAP + START, None),
    "nothing": ("", None),
    "something else": ("compute buffer size = much\nsize = 12.00 MiB\n", None),
    "cut within a line": (NONE[: NONE.index("sched_reserve") + 40], said(235.17, 39, None)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_log_of_the_last_start_is_added_up(name: str) -> None:
    log, expected = CASES[name]
    found = ENGINE.said(log)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        for field in ("weights", "context", "compute", "gpu_mapped", "context_tokens"):
            got, want = getattr(found, field), getattr(expected, field)
            assert (got is None) == (want is None), field
            assert got is None or abs(got - want) <= 2, field


#: A server of the user's, asked to tell all: the projector's line looks like that of the context before it.
SEEING = (
    NONE
    + """\
0.08.026.035 I clip_model_loader: model name:
0.08.026.105 I clip_ctx: CLIP using CPU backend
"""
)
WARM = "0.08.028.199 I reserve_compute_meta:        CPU compute buffer size =     7.00 MiB\n"


def test_what_a_projector_computes_in_is_told_or_nothing_is() -> None:
    alone, blind, warm = (ENGINE.said(log) for log in (NONE, SEEING, SEEING + WARM))
    assert alone is not None
    assert blind is not None
    assert warm is not None
    assert warm.compute == (alone.compute or 0) + 7 * MIB
    # It will take some for its first picture: what the log tells is not all.
    assert blind == replace(alone, compute=None)
