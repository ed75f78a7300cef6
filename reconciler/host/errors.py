"""What can go wrong on the host, in words for people."""


class HostError(Exception):
    """The text says what happened and, where there is something, what to do."""


class StartError(HostError):
    """A process could not be started. `passing`: for want of something that comes and goes, not of the program."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class StopError(HostError):
    """Processes survived SIGKILL; `pids` names them."""

    def __init__(self, message: str, pids: tuple[int, ...]) -> None:
        super().__init__(message)
        self.pids = pids


class PortsExhausted(HostError):
    """No port of the range is free."""


class StateUnwritable(HostError):
    """Nothing can be written into the state directory: no room, no right, a file system that takes nothing."""


class StateLocked(HostError):
    """Another process rules this state directory; `pid` is the holder's, None if it could not be read."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid
