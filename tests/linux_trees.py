"""Fake /proc and /sys trees of Linux machines, and the texts that go into them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def kib_lines(**kib: int) -> str:
    """`Key: 123 kB` lines; `Active_file` stands for `Active(file)`."""
    names = {"Active_file": "Active(file)", "Inactive_file": "Inactive(file)"}
    return "".join(f"{names.get(key, key)}:  {size} kB\n" for key, size in kib.items())


def plain_lines(**values: int) -> str:
    return "".join(f"{key} {value}\n" for key, value in values.items())


#: A machine of 24 GiB with a big program, as its kernel stated it.
MEMINFO = (
    kib_lines(
        MemTotal=24684096,
        MemFree=8261504,
        MemAvailable=10762656,
        Active_file=971228,
        Inactive_file=1750236,
        SwapTotal=0,
        SwapFree=0,
        Zswap=0,
        AnonPages=13336024,
        Shmem=8788,
        Slab=159216,
        SReclaimable=119912,
        SUnreclaim=39304,
        KernelStack=6400,
        PageTables=49196,
        Percpu=1024,
    )
    + "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\nHugetlb:      0 kB\n"
)


@dataclass(frozen=True)
class Mapped:
    """One mapping in /proc/PID/smaps, sizes in KiB."""

    name: str = ""
    rss: int = 0
    pss: int | None = None
    inode: int = 0
    device: str = "fe:02"
    mode: str = "r--s"
    size: int | None = None
    offset: int = 0
    anonymous: int = 0
    locked: int = 0


def smaps(*mappings: Mapped) -> str:
    """The text of /proc/PID/smaps; addresses are made up so that nothing overlaps."""
    text = ""
    begin = 0x7F0000000000
    for x in mappings:
        size = x.size if x.size is not None else x.rss
        end = begin + size * KIB
        device = x.device if x.inode else "00:00"
        text += f"{begin:x}-{end:x} {x.mode} {x.offset:08x} {device} {x.inode} {x.name}".rstrip() + "\n"
        text += kib_lines(
            Size=size,
            KernelPageSize=4,
            Rss=x.rss,
            Pss=x.rss if x.pss is None else x.pss,
            Pss_Dirty=0,
            Anonymous=x.anonymous,
            Swap=0,
            Locked=x.locked,
        )
        text += "THPeligible:           0\nVmFlags: rd mr mw me\n"
        begin = end + 4096
    return text


def status(
    anon: int = 0,
    file: int = 0,
    shmem: int = 0,
    swap: int = 0,
    locked: int = 0,
    huge: int = 0,
) -> str:
    """The text of /proc/PID/status, sizes in KiB."""
    return "Name:\tserver\nState:\tS (sleeping)\nTgid:\t7\n" + kib_lines(
        VmPeak=1 << 30,
        VmLck=locked,
        VmPin=0,
        VmHWM=anon + file + shmem,
        VmRSS=anon + file + shmem,
        RssAnon=anon,
        RssFile=file,
        RssShmem=shmem,
        VmData=anon,
        VmSwap=swap,
        HugetlbPages=huge,
    )


def rollup(anon: int = 0, shmem: int = 0, swap: int = 0, **more: int) -> str:
    """The text of /proc/PID/smaps_rollup, sizes in KiB."""
    head = "55d0c0000000-7ffc00000000 ---p 00000000 00:00 0      [rollup]\n"
    return head + kib_lines(Rss=anon, Pss_Anon=anon, Pss_File=0, Pss_Shmem=shmem, SwapPss=swap, **more)


def process(
    pid: int, status_text: str, smaps_text: str | None = None, rollup_text: str | None = None
) -> dict[str, str]:
    """The files of one process, to be written into a tree."""
    files = {f"proc/{pid}/stat": f"{pid} (server) S 1", f"proc/{pid}/status": status_text}
    if smaps_text is not None:
        files[f"proc/{pid}/smaps"] = smaps_text
    if rollup_text is not None:
        files[f"proc/{pid}/smaps_rollup"] = rollup_text
    return files
