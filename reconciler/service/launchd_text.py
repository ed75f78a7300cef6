"""The property list of launchd. What each key is for stands in docs/service.md."""

import plistlib
from pathlib import Path
from typing import Final

from reconciler.service.settings import MARKER, ServiceError, Settings

#: Seconds between two starts at least; launchd's own is 10.
THROTTLE_SECONDS: Final = 5
#: Open files at first; what it starts gets them too.
_FILES: Final = 10240
_UMASK: Final = 0o077


def label_of(name: str) -> str:
    """Return the label under which launchd knows the service."""
    return f"local.reconciler.{name}"


def plist_text(settings: Settings, name: str) -> str:
    """Return the whole file. Raises ServiceError for a path or variable that XML cannot hold."""
    log = str(Path(settings.logs) / f"{name}.log")
    values: dict[str, object] = {
        "Label": label_of(name),
        "ProgramArguments": list(settings.argv),
        "EnvironmentVariables": dict(settings.env),
        "RunAtLoad": True,
        # Exit status 0 means that somebody asked it to end.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": THROTTLE_SECONDS,
        "ExitTimeOut": settings.stop_seconds,
        "ProcessType": "Interactive",
        "LowPriorityIO": False,
        "LowPriorityBackgroundIO": False,
        "SoftResourceLimits": {"NumberOfFiles": _FILES},
        "Umask": _UMASK,
        "StandardOutPath": log,
        "StandardErrorPath": log,
        **({"UserName": settings.user} if settings.user is not None else {}),
    }
    try:
        text = plistlib.dumps(values, sort_keys=False).decode("utf-8")
    except (ValueError, UnicodeEncodeError) as error:
        raise ServiceError(
            f"launchd takes no path or variable with control characters, or that is no UTF-8: {error}"
        ) from error
    declaration, doctype, rest = text.split("\n", 2)
    comments = f"<!-- {MARKER}, which replaces it. -->\n<!-- {settings.record()} -->"
    return "\n".join([declaration, doctype, comments, rest])
