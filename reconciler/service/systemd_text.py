"""The unit of systemd as text. What each line is for, and what was left out on purpose, stands in docs/service.md."""

from typing import Final

from reconciler.service.settings import MARKER, ServiceError, Settings

#: Seconds between the end of the program and its next start. It does not grow: systemd never forgets a growing one
#: while the unit runs, so that a program that failed twenty times in a year would be waited for each time.
RESTART_SECONDS: Final = 2
#: Seconds within which a turn of the loop has to end. The longest one waits for the disk of a machine that swaps.
WATCHDOG_SECONDS: Final = 120
#: Seconds until it serves: reading all manifests and weights' headers from a cold disk, adopting models.
START_SECONDS: Final = 300
#: Models are 300 and more. A user's service manager may not go below its own 100; the system's may.
_USER_OOM: Final = 100
_SYSTEM_OOM: Final = -500


def unit_text(settings: Settings, name: str, *, system: bool) -> str:
    """Return the whole unit. Raises ServiceError for what systemd cannot be told."""
    edit = f"systemctl {'' if system else '--user '}edit {name}"
    head = [f"# {MARKER}, which replaces it. Changes of yours: {edit}", f"# {settings.record()}"]
    return "\n".join([*head, "", *_unit(system), "", *_service(settings, system), "", *_install(system), ""])


def _unit(system: bool) -> list[str]:
    # A service manager of a user has no network target; an address that is not there yet is tried again.
    network = ["Wants=network-online.target", "After=network-online.target"] if system else []
    return [
        "[Unit]",
        "Description=reconcile: the AI model servers of this machine",
        *network,
        "StartLimitIntervalSec=0",
    ]


def _service(settings: Settings, system: bool) -> list[str]:
    ended = (*settings.program, "-m", "reconciler.service.ended", settings.state_dir)
    return [
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        *([f"User={_specified(settings.user)}"] if settings.user is not None else []),
        *(
            f"Environment={quoted(f'{key}={_value(key, value)}')}"
            for key, value in sorted(settings.env.items())
        ),
        f"ExecStart={command(settings.argv)}",
        f"ExecStopPost=-{command(ended)}",
        "Restart=always",
        # Exit status 0 means that somebody asked it to end.
        "RestartPreventExitStatus=0",
        f"RestartSec={RESTART_SECONDS}",
        f"TimeoutStartSec={START_SECONDS}",
        f"TimeoutStopSec={settings.stop_seconds}",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "KillMode=process",
        "OOMPolicy=continue",
        f"OOMScoreAdjust={_SYSTEM_OOM if system else _USER_OOM}",
        "LimitNOFILE=1024:524288",
        "LimitCORE=0:infinity",
        *(["LimitMEMLOCK=infinity"] if system else []),
        "TasksMax=infinity",
        "UMask=0077",
        "NoNewPrivileges=yes",
    ]


def _install(system: bool) -> list[str]:
    return ["[Install]", f"WantedBy={'multi-user' if system else 'default'}.target"]


def command(argv: tuple[str, ...]) -> str:
    """Return a command line as ExecStart= takes it. Raises ServiceError for a program that it does not."""
    program, *arguments = argv
    # The path is not unescaped like an argument: quotes and control characters are refused, `$` stands for itself.
    if any(character in "\"'\\$" or not character.isprintable() for character in program):
        raise ServiceError(
            f"systemd cannot start {program!r}: its path has quotes, $, backslashes or unprintable characters;"
            " install reconcile into a folder without them"
        )
    return " ".join([quoted(program), *(quoted(argument, dollar="$$") for argument in arguments)])


def quoted(word: str, *, dollar: str = "$") -> str:
    r"""Return one word of a unit in quotes: what systemd reads is `word`, byte for byte.

    >>> print(quoted('100% "sure"'), quoted("$HOME", dollar="$$"), quoted("tab\t"), quoted("Käse"))
    "100%% \"sure\"" "$$HOME" "tab\x09" "Käse"

    Raises ServiceError for NUL, which no word can hold.
    """
    if "\0" in word:
        raise ServiceError(f"{word!r} holds a NUL character, which no path, argument or variable can")
    special = {'"': '\\"', "\\": "\\\\", "%": "%%", "$": dollar}
    return f'"{"".join(special.get(c) or _escaped(c) for c in word)}"'


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    # Bytes of a path that are no UTF-8 are kept by Python as lone surrogates.
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _specified(text: str) -> str:
    return text.replace("%", "%%")


def _value(name: str, value: str) -> str:
    if any(not c.isprintable() and c not in "\t\n" for c in value):
        raise ServiceError(f"systemd takes no variable like {name}={value!r}: it has unprintable characters")
    return value
