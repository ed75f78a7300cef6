"""How much of the memory the GPU of a Mac may use at the same time."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Final

from reconciler.core.memory import GpuPool
from reconciler.memory.macos.sysctl import number

WIRED_LIMIT: Final = "iogpu.wired_limit_mb"
ARM64: Final = "hw.optional.arm64"

_MIB: Final = 1024**2
_GIB: Final = 1024**3
#: The system's default share is two thirds of the memory up to here, and three quarters above.
_SMALL_MAC: Final = 36 * _GIB

#: Returns what Metal recommends in bytes, or None.
WorkingSet = Callable[[], int | None]


def gpu_pool(values: Mapping[str, str], total: int, working_set: WorkingSet) -> GpuPool | None:
    """Return what the GPU may use, or None on a Mac whose GPU does not share the memory.

    The ceiling is the limit set with `iogpu.wired_limit_mb`. 0 there means the default: Metal states it
    (recommendedMaxWorkingSetSize; `working_set` asks for it), else it is estimated. The ceiling never leaves less
    than 6 GiB or 12 % to the system: Macs have hung and crashed when the GPU wired more.
    """
    limit = number(values, WIRED_LIMIT)
    if limit is None and number(values, ARM64) != 1:
        return None
    if limit:
        ceiling, source = limit * _MIB, f"sysctl {WIRED_LIMIT}"
    elif stated := working_set():
        ceiling, source = stated, "Metal recommendedMaxWorkingSetSize"
    else:
        ceiling, share = (total * 2 // 3, "2/3") if total <= _SMALL_MAC else (total * 3 // 4, "3/4")
        source = f"estimated as {share} of the memory: Metal could not be asked"
    most = max(0, total - max(6 * _GIB, total * 12 // 100))
    if ceiling > most:
        ceiling, source = most, f"{source}, lowered to leave the system {(total - most) / _GIB:.1f} GiB"
    return GpuPool(ceiling, None, source)


def metal_working_set() -> int | None:
    """Ask Metal for the working set it recommends, in bytes; None if there is no Metal. Takes some ms: ask once."""
    try:
        # Without CoreGraphics in the process Metal has no default device to offer.
        ctypes.CDLL("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics")
        metal = ctypes.CDLL("/System/Library/Frameworks/Metal.framework/Metal")
        objc = ctypes.CDLL("/usr/lib/libobjc.A.dylib")
        return working_set_through(metal, objc)
    except (OSError, AttributeError):
        return None


def working_set_through(metal: ctypes.CDLL, objc: ctypes.CDLL) -> int | None:
    """Return `[MTLCreateSystemDefaultDevice() recommendedMaxWorkingSetSize]`, or None without a device.

    Raises AttributeError when a library lacks one of the functions.
    """
    create = ctypes.CFUNCTYPE(ctypes.c_void_p)(("MTLCreateSystemDefaultDevice", metal))
    selector = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(("sel_registerName", objc))
    # Each message needs a prototype of its own: variadic calls pass arguments differently on arm64.
    ask_number = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)(("objc_msgSend", objc))
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("objc_release", objc))
    device = create()
    if not device:
        return None
    try:
        return int(ask_number(device, selector(b"recommendedMaxWorkingSetSize"))) or None
    finally:
        release(device)
