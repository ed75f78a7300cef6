"""`sysctl`: several values of the kernel in one call."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024**2
_UNITS: Final = {"K": 1024, "M": _MIB, "G": 1024**3, "T": 1024**4}
_AMOUNT: Final = r"(\d{1,12}(?:\.\d{1,6})?)([KMGT])"
_SWAP: Final = re.compile(rf"total = {_AMOUNT}\s+used = {_AMOUNT}\s+free = {_AMOUNT}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,20}", re.ASCII)


def sysctl_command(names: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that asks for `names`. A name this machine does not have is left out of the answer (`-i`)."""
    return ("/usr/sbin/sysctl", "-i", *names)


def parse_sysctl(text: str) -> Mapping[str, str]:
    """Parse `name: value` lines; others are left out.

    >>> dict(parse_sysctl("hw.pagesize: 16384\\nsysctl: unknown oid\\n"))
    {'hw.pagesize': '16384'}
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon and "." in name and " " not in name:
            values[name] = value.strip()
    return values


def number(values: Mapping[str, str], name: str) -> int | None:
    """Return a value that is a plain number, or None if it is missing or anything else."""
    value = values.get(name, "")
    return int(value) if _NUMBER.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class SwapUsage:
    """`vm.swapusage` in bytes. Swap files grow on demand: a total of 0 is normal, and used / total says nothing."""

    total: int
    used: int


def swap_usage(values: Mapping[str, str]) -> SwapUsage | None:
    """Return the swap in use, or None if `vm.swapusage` is missing or has another shape.

    >>> swap_usage({"vm.swapusage": "total = 4096.00M  used = 2743.50M  free = 1352.50M  (encrypted)"})
    SwapUsage(total=4294967296, used=2876768256)
    """
    found = _SWAP.match(values.get("vm.swapusage", ""))
    if found is None:
        return None
    total, used = (round(float(found[i]) * _UNITS[found[i + 1]]) for i in (1, 3))
    return SwapUsage(total, used)
