"""Reading the fields of a request; what is wrong is said with the path of the field, as `messages.0.content`."""

from typing import Any, Final

from reconciler.gateway.errors import ApiError

#: What JSON reads as infinite cannot be written as JSON again.
_HUGE: Final = 1e300


def invalid(path: str, text: str) -> ApiError:
    """Return the error (400) for a field that is missing, wrong, or says what an engine cannot be asked."""
    return ApiError("invalid_request", f"{path}: {text}")


def string(value: object, path: str) -> str:
    """Return a string; raise `ApiError` (400) for anything else."""
    if not isinstance(value, str):
        raise invalid(path, "must be a string")
    return value


def name(value: object, path: str) -> str:
    """Return a string that is not empty; raise `ApiError` (400) for anything else."""
    if not string(value, path):
        raise invalid(path, "must not be empty")
    return str(value)


def items(value: object, path: str) -> list[Any]:
    """Return a list; raise `ApiError` (400) for anything else."""
    if not isinstance(value, list):
        raise invalid(path, "must be a list")
    return value


def mapping(value: object, path: str) -> dict[str, Any]:
    """Return an object; raise `ApiError` (400) for anything else."""
    if not isinstance(value, dict):
        raise invalid(path, "must be an object")
    return value


def number(value: object, path: str) -> int | float:
    """Return a number; raise `ApiError` (400) for anything else. JSON's true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_HUGE < value < _HUGE:
        raise invalid(path, "must be a number")
    return value


def positive(value: object, path: str) -> int:
    """Return a whole number of at least 1; raise `ApiError` (400) for anything else."""
    if value is None:
        raise invalid(path, "is missing")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(path, "must be a whole number of at least 1")
    return value


def flag(value: object, path: str) -> bool:
    """Return true or false, false where it is left out; raise `ApiError` (400) for anything else."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(path, "must be true or false")
    return value
