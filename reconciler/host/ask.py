"""Asking a program of the system something: started without a shell, bounded in time, its output returned."""

import os
import subprocess
from collections.abc import Sequence

from reconciler.memory.commands import Output


def run_command(argv: Sequence[str], timeout: float) -> Output:
    """Return what a program prints and its exit status. Blocks, for at most `timeout` seconds.

    Raises OSError when it cannot be started and TimeoutError (an OSError) when it takes longer; it is ended then.
    """
    env = {**os.environ, "LC_ALL": "C", "LANG": "C"}
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=env, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{argv[0]} did not answer within {timeout:g} s") from error
    return Output(done.stdout.decode("utf-8", "replace"), done.returncode)
