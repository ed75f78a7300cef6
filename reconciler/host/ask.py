"""Asking a program of the system something: started without a shell, bounded in time, its output returned."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.memory.commands import Output


def run_command(argv: Sequence[str], timeout: float) -> Output:
    """Return what a program prints and its exit status. Blocks, for at most `timeout` seconds.

    Raises OSError when it cannot be started and TimeoutError (an OSError) when it takes longer; it is ended then.
    """
    said = run_program(argv, timeout)
    return Output(said.out, said.status)


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed, and its exit status (0 = it says that all went well)."""

    out: str
    err: str
    status: int

    @property
    def complaint(self) -> str:
        """Return what it says is wrong, on one line."""
        return " ".join((self.err.strip() or self.out.strip() or f"exit status {self.status}").split())


def run_program(
    argv: Sequence[str], timeout: float, *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Said:
    """Return all that a program prints. Blocks, for at most `timeout` seconds.

    Without `env` it gets our environment; either way it is to speak English.

    Raises OSError when it cannot be started and TimeoutError (an OSError) when it takes longer; it is ended then.
    """
    env = {**(os.environ if env is None else env), "LC_ALL": "C", "LANG": "C"}
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env=env,
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{argv[0]} did not answer within {timeout:g} s") from error
    return Said(
        done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), done.returncode
    )
