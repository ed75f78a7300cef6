"""macOS is asked not to slow us down: through the bridge where it is installed, else through the system's library."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.worker import nap
from reconciler.worker.nap import OPTIONS, stay_awake


class ProcessInfo:
    """Stands for NSProcessInfo of pyobjc."""

    def __init__(self, token: object = "token", error: Exception | None = None) -> None:
        self.token, self.error = token, error
        self.asked: list[tuple[int, str]] = []

    def processInfo(self) -> "ProcessInfo":  # noqa: N802 - Apple's name
        return self

    def beginActivityWithOptions_reason_(self, options: int, reason: str) -> object:  # noqa: N802
        self.asked.append((options, reason))
        if self.error is not None:
            raise self.error
        return self.token


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    tokens: list[object] = []
    monkeypatch.setattr(nap, "_held", tokens)
    return tokens


def bridge(info: ProcessInfo) -> Callable[[], Any]:
    return lambda: SimpleNamespace(NSProcessInfo=info)


def missing() -> Any:
    raise ImportError("No module named 'Foundation'")


def no_library(path: str) -> ctypes.CDLL:
    raise OSError(f"{path}: no such file")


def test_it_is_held_for_the_life_of_the_process(held: list[object]) -> None:
    info = ProcessInfo()
    assert stay_awake("serves", platform="darwin", pyobjc=bridge(info), library=no_library) == ""
    assert info.asked == [(OPTIONS, "serves")]
    assert held == ["token"]


def test_the_machine_itself_may_sleep() -> None:
    # Foundation's NSActivityUserInitiated, less NSActivityIdleSystemSleepDisabled.
    assert OPTIONS == 0x00EFFFFF


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (ProcessInfo(None), "NSProcessInfo gave no activity"),
        (ProcessInfo(error=ValueError("depythonifying")), "ValueError: depythonifying"),
        (None, "OSError: /usr/lib/libobjc.A.dylib: no such file"),
    ],
)
def test_a_failure_is_said_and_harms_nobody(info: ProcessInfo | None, why: str, held: list[object]) -> None:
    load = missing if info is None else bridge(info)
    said = stay_awake("serves", platform="darwin", pyobjc=load, library=no_library)
    assert said == f"App Nap is not kept away: {why}"
    assert held == []


def test_elsewhere_nobody_is_asked() -> None:
    assert stay_awake("serves", platform="linux", pyobjc=missing, library=no_library) == ""


@pytest.mark.skipif(sys.platform == "darwin", reason="there it has one")
def test_a_machine_without_foundation() -> None:
    assert stay_awake("serves") == ""
    assert stay_awake("serves", platform="darwin").startswith("App Nap is not kept away: OSError")


#: Stands for the Objective-C runtime: classes are their names, and so are selectors; one object answers.
RUNTIME = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static int process, activity;
void *given = &activity;
int retained;
uint64_t options;
char reason[64];
const char *objc_getClass(const char *name) { return name; }
const char *sel_registerName(const char *name) { return name; }
void *objc_msgSend(void *object, const char *name, uint64_t first, void *second) {
    if (!strcmp(name, "stringWithUTF8String:") && !strcmp(object, "NSString")) return (void *)first;
    if (!strcmp(name, "processInfo") && !strcmp(object, "NSProcessInfo")) return &process;
    if (!strcmp(name, "beginActivityWithOptions:reason:") && object == &process) {
        options = first;
        snprintf(reason, sizeof reason, "%s", (char *)second);
        return given;
    }
    return 0;
}
void *objc_retain(void *object) { retained += object == &activity; return object; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_through_the_library_of_the_system(tmp_path: Path, held: list[object]) -> None:
    source, built = tmp_path / "objc.c", tmp_path / "objc.so"
    source.write_text(RUNTIME)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True, timeout=30)
    asked: list[str] = []

    def library(path: str) -> ctypes.CDLL:
        asked.append(path)
        return ctypes.CDLL(str(built))

    runtime = ctypes.CDLL(str(built))
    assert stay_awake("serves models", platform="darwin", pyobjc=missing, library=library) == ""
    assert asked == [
        "/usr/lib/libobjc.A.dylib",
        "/System/Library/Frameworks/Foundation.framework/Foundation",
    ]
    assert ctypes.c_uint64.in_dll(runtime, "options").value == OPTIONS
    assert (ctypes.c_char * 64).in_dll(runtime, "reason").value == b"serves models"
    assert ctypes.c_int.in_dll(runtime, "retained").value == 1
    assert held == [ctypes.c_void_p.in_dll(runtime, "given").value]
    ctypes.c_void_p.in_dll(runtime, "given").value = None
    said = stay_awake("serves models", platform="darwin", pyobjc=missing, library=library)
    assert said == "App Nap is not kept away: NSProcessInfo gave no activity"
