"""Start one process: no shell, a session of its own, output straight into a file."""

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.engines.base import Command
from reconciler.host import files, limits, oom, placing
from reconciler.host.errors import StartError
from reconciler.host.identity import Process, read_stat

#: What is meant for us alone, and the key by which the command line may do everything here.
_OURS: Final = ("RECONCILER_", "RECONCILE_API_KEY")
#: A child that answers the service manager in our place would confuse it.
_SERVICE_MANAGER: Final = frozenset(
    {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}
)

#: The machine is short of processes, memory or open files: another time it will do.
_PASSING: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def child_environment(own: Mapping[str, str], command: Command, marks: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without what is meant for us alone or left out, then the command's own, then the marks."""
    out = (*_OURS, *command.without)
    kept = {k: v for k, v in own.items() if not k.startswith(out) and k not in _SERVICE_MANAGER}
    return {**kept, **command.env, **marks}


def spawn(command: Command, env: Mapping[str, str], output: int, group: Path | None = None) -> Process:
    """Start `command` with its output on the descriptor `output`. Blocking until the program really runs.

    CPUs, niceness and the control group (its folder) are the child's from its first instruction on. The caller must
    reap it by pid. Raises StartError.
    """
    if not command.argv or not command.argv[0]:
        raise StartError("the command is empty: name the program to start")
    try:
        if group is not None:
            _check_there(command, env)
        argv = command.argv if group is None else limits.entering(command.argv, group)
        popen = placing.within(command, lambda: _popen(argv, command.cwd, env, output))
    except (OSError, ValueError) as error:
        passing = isinstance(error, OSError) and error.errno in _PASSING
        raise StartError(_explain(command, env, error), passing=passing) from error
    # We reap by pid. Without a return code the object would try that as well, and warn, when it is collected.
    popen.returncode = 0
    if command.limits.nofile is None:
        files.give_back(popen.pid)
    placing.after_start(popen.pid, command)
    oom.prefer([popen.pid], oom.score(command.limits, oom.LOADING))
    limits.after_start(popen.pid, command.limits)
    return _identity(popen.pid)


def _identity(pid: int) -> Process:
    """Return who a child just started is. Raises StartError if that cannot be told: it is nobody's then, and ended."""
    why, passing = "is /proc mounted?", False
    try:
        stat = read_stat(pid)
    except OSError as error:
        stat, why, passing = None, error.strerror or str(error), True
    if stat is None:  # it cannot be reaped yet
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise StartError(f"pid {pid} was started and cannot be read, so it was ended: {why}", passing=passing)
    return Process(pid, stat.started)


def _check_there(command: Command, env: Mapping[str, str]) -> None:
    """Raise what starting the program would raise; a shell in between would only say so in the log."""
    program, cwd = command.argv[0], Path(command.cwd)
    found = shutil.which(program, path=env.get("PATH", os.defpath)) if "/" not in program else cwd / program
    if found is None or not Path(found).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if Path(found).is_dir() or not os.access(found, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)


def _popen(argv: tuple[str, ...], cwd: str, env: Mapping[str, str], output: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        close_fds=True,
    )


def _explain(command: Command, env: Mapping[str, str], error: OSError | ValueError) -> str:
    program = command.argv[0]
    if isinstance(error, ValueError):
        return f"cannot start '{program}': {error} (a NUL character in its arguments, or '=' in an env name)"
    cwd = Path(command.cwd)
    if not cwd.is_dir():
        return f"cannot start '{program}': its working directory {cwd} does not exist or is no directory"
    if not os.access(cwd, os.X_OK):
        return f"cannot start '{program}': its working directory {cwd} may not be entered (check its permissions)"
    if error.errno == errno.ENOENT:
        return _explain_missing(command, env)
    if error.errno in (errno.EACCES, errno.EPERM):
        if (cwd / program).is_dir():
            return f"cannot start '{program}': it is a directory, name the program in it"
        return f"cannot start '{program}': permission denied; make it executable: chmod +x {cwd / program}"
    if error.errno == errno.ENOEXEC:
        return f"cannot start '{program}': not a program for this machine; a script needs a first line like #!/bin/sh"
    if error.errno == errno.E2BIG:
        return f"cannot start '{program}': its arguments and environment together are too long"
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return f"cannot start '{program}': {error.strerror}; the limit of processes (ulimit -u) or memory is reached"
    return f"cannot start '{program}': {error.strerror or error}"


def _explain_missing(command: Command, env: Mapping[str, str]) -> str:
    program = command.argv[0]
    if "/" not in program:
        path = env.get("PATH", os.defpath)
        if shutil.which(program, path=path) is None:
            return f"program '{program}' is not on PATH ({path}): install it or give its full path"
        return f"cannot start '{program}': the interpreter in its first line does not exist"
    full = Path(command.cwd) / program
    if not full.exists():
        return f"program {full} does not exist: install it or correct the path"
    return f"cannot start {full}: the interpreter or loader it names does not exist"
