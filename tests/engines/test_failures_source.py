"""Tracebacks quote programs, ours among them: what a quoted line names is no reason for anything."""

import pytest

from reconciler.engines import failures

NO_MEMORY = "there was not enough memory"
QUOTED = """Traceback (most recent call last):
  File "/w/caches.py", line 45, in failed
    if isinstance(error, MemoryError) or "CUDA out of memory" in text:
       ^^^^^^^^^^^^^^^^^^
  File "/w/a.py", line 3, in f
    except MemoryError:
{}"""
PREFIXED = """(Engine pid=1) ERROR 09-12 [core.py:1]   File "/w/a.py", line 3, in f
(Engine pid=1) ERROR 09-12 [core.py:1]     except torch.OutOfMemoryError:
(Engine pid=1) ERROR 09-12 [core.py:1] {}"""

CASES = {
    "quoted only": (QUOTED.format("KeyError: 'x'"), None),
    "quoted behind a prefix": (PREFIXED.format("KeyError: 'x'"), None),
    "really": (QUOTED.format("MemoryError"), NO_MEMORY),
    "of a module": (
        QUOTED.format("numpy.core._exceptions._ArrayMemoryError: x\nsome.MemoryError: 3"),
        NO_MEMORY,
    ),
    "really, behind a prefix": (
        PREFIXED.format("torch.OutOfMemoryError: CUDA"),
        "the GPU has not enough memory: lower the context, or give the model another device",
    ),
    "spoken of": ("what to do at a MemoryError or so", None),
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_happened_is_a_reason(name: str) -> None:
    log, sentence = CASES[name]
    assert failures.explain(log, 1) == sentence


def test_nothing_but_quoted_lines_is_left_out() -> None:
    log = 'a\n  File "x.py", line 1, in f\n    quoted\n\n  kept\nb'
    assert failures.without_source(log) == 'a\n  File "x.py", line 1, in f\n\n  kept\nb'
