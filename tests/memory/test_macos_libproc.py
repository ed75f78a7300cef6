"""`libproc`: the layout of what the kernel fills in, and what its errors mean."""

import ctypes
import errno
import sys
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.memory.macos import libproc
from reconciler.memory.macos.libproc import Charge, RusageInfo, read_charge, read_descendants, system_children

MB = 10**6


def filled(words: Mapping[int, int]) -> libproc.Rusage:
    """Return a `proc_pid_rusage` that writes raw numbers at the places where the kernel has them."""

    def rusage(pid: int, info: RusageInfo) -> int:
        for place, value in words.items():
            ctypes.memmove(ctypes.addressof(info) + 16 + 8 * place, ctypes.byref(ctypes.c_uint64(value)), 8)
        return 0

    return rusage


def test_layout() -> None:
    assert ctypes.sizeof(RusageInfo) == 296
    assert (RusageInfo.uuid.offset, RusageInfo.uuid.size) == (0, 16)
    assert (RusageInfo.words.offset, RusageInfo.words.size) == (16, 35 * 8)


@pytest.mark.parametrize(
    ("resident", "footprint", "largest"),
    # A server with 16 GB of weights, idle and busy, and a terminal with its pictures in buffers of the GPU.
    [
        (5107 * MB, 13795 * MB, 18591 * MB),
        (7244 * MB, 15427 * MB, 18591 * MB),
        (269 * MB, 1637 * MB, 2251 * MB),
    ],
)
def test_charge_is_the_footprint_and_not_what_is_resident(
    resident: int, footprint: int, largest: int
) -> None:
    words = dict.fromkeys(range(35), 1) | {5: 3, 6: resident, 7: footprint, 28: largest, 33: 4}
    assert read_charge(filled(words), 7) == Charge(footprint, largest)


def test_largest_is_never_below_the_present() -> None:
    assert read_charge(filled({7: 10, 28: 4}), 7) == Charge(10, 10)


@pytest.mark.parametrize(
    ("failure", "charge"),
    [(errno.ESRCH, Charge(0, 0)), (errno.EPERM, None), (errno.EINVAL, None), (errno.ENOSYS, None)],
)
def test_errors(failure: int, charge: Charge | None) -> None:
    def rusage(pid: int, info: RusageInfo) -> int:
        info.words[7] = 99  # what a failed call leaves behind is not read
        return failure

    assert read_charge(rusage, 7) == charge


@pytest.mark.parametrize("place", [7, 28])
def test_a_figure_below_0_is_unknown(place: int) -> None:
    assert read_charge(filled({7: 5, 28: 6} | {place: 2**64 - 4096}), 7) is None


@given(st.binary(min_size=296, max_size=296))
def test_any_content_is_read_without_an_error(content: bytes) -> None:
    def rusage(pid: int, info: RusageInfo) -> int:
        ctypes.memmove(ctypes.addressof(info), content, 296)
        return 0

    charge = read_charge(rusage, 7)
    assert charge is None or 0 <= charge.footprint <= charge.largest < 2**63


@pytest.mark.skipif(sys.platform == "darwin", reason="there the library exists")
def test_without_the_library_nothing_is_known() -> None:
    assert read_charge(libproc.system_rusage, 1) is None
    assert read_descendants(system_children, 1) is None


@pytest.mark.parametrize(
    ("returned", "number", "failure"), [(0, 0, 0), (12, 0, 0), (-1, 3, 3), (-1, 0, errno.EINVAL)]
)
def test_a_negative_result_is_the_errno(
    monkeypatch: pytest.MonkeyPatch, returned: int, number: int, failure: int
) -> None:
    class Library:
        def proc_pid_rusage(self, pid: int, flavor: int, info: object) -> int:
            assert (pid, flavor) == (7, 4)
            ctypes.set_errno(number)
            return returned

        def proc_listchildpids(self, pid: int, pids: object, size: int) -> int:
            assert (pid, size) == (7, 3 * 4)
            ctypes.set_errno(number)
            return returned

    monkeypatch.setattr(libproc, "_load", Library)
    assert libproc.system_rusage(7, RusageInfo()) == failure
    assert system_children(7, (ctypes.c_int * 3)()) == failure


# children


def family(
    children: Mapping[int, Iterable[int]], errors: Mapping[int, int] | None = None
) -> libproc.ListChildren:
    """Return a `proc_listchildpids` for some parents; `errors` gives the errno of those that cannot be listed."""

    def list_children(pid: int, pids: "ctypes.Array[ctypes.c_int]") -> int:
        for i, child in enumerate(list(children.get(pid, ()))[: len(pids)]):
            pids[i] = child
        return (errors or {}).get(pid, 0)

    return list_children


def test_descendants_of_all_generations() -> None:
    assert read_descendants(family({10: [30, 20], 30: [40], 40: [5], 99: [6]}), 10) == (5, 20, 30, 40)


def test_more_children_than_the_first_array_holds() -> None:
    many = range(1000, 1500)
    assert read_descendants(family({10: many, 1499: [7]}), 10) == (7, *many)


def test_a_pid_used_anew_in_between_makes_no_endless_walk() -> None:
    assert read_descendants(family({10: [20], 20: [30], 30: [10, 20]}), 10) == (20, 30)


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ({20: errno.ESRCH}, (20, 30)),
        ({20: errno.EPERM}, (20, 30)),
        ({10: errno.ESRCH}, ()),
        ({10: errno.EPERM}, None),
    ],
)
def test_children_that_cannot_be_listed(errors: Mapping[int, int], found: tuple[int, ...] | None) -> None:
    children = {10: [20, 30]} if 10 not in errors else {}
    assert read_descendants(family(children, errors), 10) == found
