"""Which boot of the machine this is: monotonic times mean nothing in another one."""

import ctypes
import ctypes.util
import sys
from pathlib import Path


def boot_id() -> str:
    """Return an id that changes with every boot; empty when the system tells none. Blocking."""
    if sys.platform == "darwin":
        return _sysctl(b"kern.bootsessionuuid")
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _sysctl(name: bytes) -> str:
    library = ctypes.CDLL(ctypes.util.find_library("c"))
    size = ctypes.c_size_t(128)
    value = ctypes.create_string_buffer(size.value)
    if library.sysctlbyname(name, value, ctypes.byref(size), None, 0) != 0:
        return ""
    return value.value.decode("ascii", "replace")
