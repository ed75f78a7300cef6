"""Keeps a Mac from slowing us down while nobody looks (App Nap): for servers, idle is when the next request comes.

It lies with the worker, which runs in environments that have nothing else of ours; the manager and the launcher of
llama.cpp use it as well.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

#: NSActivityUserInitiatedAllowingIdleSystemSleep: work that somebody waits for; the machine itself may still sleep.
OPTIONS: Final = 0x00FFFFFF & ~(1 << 20)
_FOUNDATION: Final = "/System/Library/Frameworks/Foundation.framework/Foundation"
_OBJC: Final = "/usr/lib/libobjc.A.dylib"

#: Activities last as long as their token does: for the life of the process.
_held: Final[list[object]] = []


def stay_awake(
    reason: str,
    *,
    platform: str = sys.platform,
    pyobjc: Callable[[], Any] = lambda: importlib.import_module("Foundation"),
    library: Callable[[str], ctypes.CDLL] = ctypes.CDLL,
) -> str:
    """Tell macOS that this process does something for its user, for as long as it lives; elsewhere do nothing.

    Return an empty text, or why it could not be done, in words for a log. Never raises: it is slower without, no more.
    """
    if platform != "darwin":
        return ""
    try:
        try:
            token: object = _through_pyobjc(pyobjc(), reason)
        except ImportError:
            token = _through_runtime(library(_OBJC), library(_FOUNDATION), reason)
    except Exception as error:  # whatever it is: nothing depends on it
        return f"App Nap is not kept away: {type(error).__name__}: {error}"
    if not token:
        return "App Nap is not kept away: NSProcessInfo gave no activity"
    _held.append(token)
    return ""


def _through_pyobjc(foundation: Any, reason: str) -> object:
    token: object = foundation.NSProcessInfo.processInfo().beginActivityWithOptions_reason_(OPTIONS, reason)
    return token


def _through_runtime(objc: ctypes.CDLL, foundation: ctypes.CDLL, reason: str) -> int | None:
    """Return the address of the activity, kept. `foundation` only has to be loaded for its classes to be there."""
    del foundation
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    get_class = ctypes.CFUNCTYPE(pointer, text)(("objc_getClass", objc))
    selector = ctypes.CFUNCTYPE(pointer, text)(("sel_registerName", objc))
    # Each message needs a prototype of its own: variadic calls pass arguments differently on arm64.
    ask = ctypes.CFUNCTYPE(pointer, pointer, pointer)(("objc_msgSend", objc))
    make = ctypes.CFUNCTYPE(pointer, pointer, pointer, text)(("objc_msgSend", objc))
    begin = ctypes.CFUNCTYPE(pointer, pointer, pointer, ctypes.c_uint64, pointer)(("objc_msgSend", objc))
    retain = ctypes.CFUNCTYPE(pointer, pointer)(("objc_retain", objc))
    words = make(get_class(b"NSString"), selector(b"stringWithUTF8String:"), reason.encode())
    info = ask(get_class(b"NSProcessInfo"), selector(b"processInfo"))
    activity = begin(info, selector(b"beginActivityWithOptions:reason:"), OPTIONS, words)
    kept: int | None = retain(activity) if activity else None
    return kept
