"""What is wrong with a trace is said with its line, all at once, and nothing is taken for what it is not."""

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from reconciler.simulate.trace_errors import TraceError
from reconciler.simulate.trace_fields import A_TIME
from reconciler.simulate.trace_read import read_trace
from trace_files import HEADER, refused

EXAMPLE = "t,model,prompt_tokens,output_tokens,client,think"
LENGTH = "and must be seconds from 0 to 1,000,000,000; leave it empty for none"
WHOLE = "and must be a whole number from 0 to 1,000,000,000"
COUNT_ON = "count on over midnight (86400 and more), or give each trace a file of its own"
QUOTES = 'a field with a comma or quotes is written "so"'

CSV = {
    "empty": ("", [f"x: it is empty; the first line names the columns: {EXAMPLE}"]),
    "blank": ("\n \n\n", [f"x: it is empty; the first line names the columns: {EXAMPLE}"]),
    "header only": (HEADER, ["x: there is no request in it; below the header, each is a line of its own"]),
    "no header": (
        "1,chat,10,20\n2,chat,10,20\n",
        [f'x:1: "1,chat,10,20" is no header; the first line names the columns: {EXAMPLE}'],
    ),
    "semicolons": ("t;model\n1;chat\n", ["x:1: the columns are separated by semicolons; use commas"]),
    "tabs": ("t\tmodel\n1\tchat\n", ["x:1: the columns are separated by tabs; use commas"]),
    "another name": (
        "timestamp,model\n1,chat\n",
        ['x:1: there is no column "t"; call the column "timestamp" so; needed are t and model'],
    ),
    "no model": ("t,client\n1,a\n", ['x:1: there is no column "model"; needed are t and model']),
    "twice": ("t,model,t\n1,a,2\n", ['x:1: there are 2 columns "t"; delete all but one']),
    "no time": ("t,model\n,chat\n", [f"x:2: t is missing: {A_TIME}"]),
    "a word": ("t,model\n1,a\nsoon,a\n", [f'x:3: t is "soon", and must be {A_TIME}']),
    "nan": ("t,model\nnan,a\n", [f'x:2: t is "nan", and must be {A_TIME}']),
    "infinite": ("t,model\n1,a\ninf,a\n", [f'x:3: t is "inf", and must be {A_TIME}']),
    "before the day": ("t,model\n-1,a\n", [f'x:2: t is "-1", and must be {A_TIME}']),
    "only a day": ("t,model\n2026-11-30,a\n", [f'x:2: t is "2026-11-30", and must be {A_TIME}']),
    "milliseconds": (
        "t,model\n1796023800123,a\n",
        ['x:2: t is "1796023800123": are these milliseconds? It must be seconds, or a date'],
    ),
    "two clocks": (
        "t,model\n10,a\n1796023800,a\n2026-11-30T08:00:00Z,a\n",
        [
            "x:3: t counts seconds since 1970 here, and seconds since midnight in the rows above",
            "x:4: t counts dates here, and seconds since midnight in the rows above",
        ],
    ),
    "no name": ("t,model\n1, \n", ["x:2: model is missing: the name that the request asks for"]),
    "long name": (f"t,model\n1,{'a' * 201}\n", ["x:2: model is 201 characters long; 200 at most"]),
    "tokens": (
        "t,model,prompt_tokens,output_tokens\n1,a,-1,2.5\n2,a,1e12,many\n",
        [
            f'x:2: prompt_tokens is "-1", {WHOLE}',
            f'x:2: output_tokens is "2.5", {WHOLE}',
            f'x:3: prompt_tokens is "1e12", {WHOLE}',
            f'x:3: output_tokens is "many", {WHOLE}',
        ],
    ),
    "lengths": (
        "t,model,think,seconds\n1,a,-1,nan\n2,a,inf,x\n3,a,1e300,1e10\n",
        [
            f'x:2: think is "-1", {LENGTH}',
            f'x:2: seconds is "nan", {LENGTH}',
            f'x:3: think is "inf", {LENGTH}',
            f'x:3: seconds is "x", {LENGTH}',
            f'x:4: think is "1e300", {LENGTH}',
            f'x:4: seconds is "1e10", {LENGTH}',
        ],
    ),
    "ragged": (
        "t,model,client\n1,a,b\n\n2,a\n3,a,b,c\n4,a,b\n5\n",
        [
            "x:4: there are 2 fields, and 3 in the header",
            "x:5: there are 4 fields, and 3 in the header",
            "x:7: there is 1 field, and 3 in the header",
        ],
    ),
    "lines after a name of two lines": (
        't,model\n1,"a\nb"\nx,a\n',
        [f'x:4: t is "x", and must be {A_TIME}'],
    ),
    "open quotation": ('t,model\n1,"chat\n2,a\n', [f"x:3: a quotation mark is never closed; {QUOTES}"]),
    "a new day": (
        "t,model\n30000,a\n86399,a\n60,a\n",
        [f"x:4: t is 00:01:00, after 23:59:59 above: {COUNT_ON}"],
    ),
    "terminal": ("t,model\n\x1b[31m,a\n", [f'x:2: t is "�[31m", and must be {A_TIME}']),
}


@pytest.mark.parametrize(("text", "said"), CSV.values(), ids=CSV.keys())
def test_a_bad_csv_is_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    (tmp_path / "x").write_text(text)
    assert refused(tmp_path / "x") == said


JSON = {
    "an array": (
        '[{"t": 1}]',
        ["x: it is one array; write its requests one a line, for example with jq -c '.[]'"],
    ),
    "no JSON": (
        '{"t": 1, "model": "a"}\n{"t": 2,\n{"t": 3, "model": "a"}\n',
        ["x:2: it is no JSON (it ends too early); each line is like"],
    ),
    "no object": ('{"t": 1, "model": "a"}\n[1]\n', ["x:2: it is no object"]),
    "types": (
        '{"t": true, "model": 5, "prompt_tokens": 1.5, "client": {}}\n{"t": null, "think": []}\n',
        [
            f'x:1: t is "True", and must be {A_TIME}',
            'x:1: model is "5", and must be a text',
            'x:1: client is "{}", and must be a text',
            f'x:1: prompt_tokens is "1.5", {WHOLE}',
            f"x:2: t is missing: {A_TIME}",
            "x:2: model is missing",
            f'x:2: think is "[]", {LENGTH}',
        ],
    ),
    "NaN": ('{"t": NaN, "model": "a"}\n', ["x:1: it is no JSON (NaN is no number)"]),
    "deep": (
        '{"t":1}\n' + "[" * 100_000 + "\n",
        ["x:1: model is missing", "x:2: it is no JSON (it is nested too deeply)"],
    ),
}


@pytest.mark.parametrize(("text", "said"), JSON.values(), ids=JSON.keys())
def test_bad_json_is_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    (tmp_path / "x").write_text(text)
    found = refused(tmp_path / "x")
    assert len(found) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(found, said, strict=True)), found


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


GOOD = (HEADER + "1,a,1,1,c,,\n" * 5000).encode()
BYTES = {
    "cut short": (packed(GOOD)[:-40], "x: the packed file ends too early; it was not written to its end"),
    "spoilt": (packed(GOOD)[:200] + b"?" * 40 + packed(GOOD)[240:], "x: it cannot be unpacked ("),
    "another packer": (b"\x1f\x8b" + b"?" * 50, "x: it cannot be unpacked ("),
    "NUL": (b"t,model\n1,a\0b\n", "x:2: there is a NUL byte: this is no text, or the file is damaged"),
    "NUL, packed": (packed(bytes(5000)), "x:1: there is a NUL byte: this is no text, or the file is damaged"),
    "Latin-1": (
        "t,model\n1,é\n".encode("latin-1"),
        "x:2: byte 3 of the line is no UTF-8; save the file as UTF-8",
    ),
    "UTF-16": ("t,model\n1,a\n".encode("utf-16"), "x:1: the text is UTF-16; save it as UTF-8"),
    "a database": (
        b"SQLite format 3\0" + bytes(99),
        "x: it is a database; `reconcile history --export FILE.csv`",
    ),
}


@pytest.mark.parametrize(("data", "said"), BYTES.values(), ids=BYTES.keys())
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(data)
    found = refused(tmp_path / "x")
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert refused(tmp_path / "x") == ["x: there is no such file or directory"]
    assert refused(tmp_path) == [f"{tmp_path.name}: Is a directory"]


def test_twenty_faults_are_told_and_the_rest_is_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("t,model\n" + "soon,a\n" * 20_000)
    found = refused(tmp_path / "x")
    assert len(found) == 21
    assert found[19].startswith("x:21: ")
    assert found[20] == "and 19,980 more"


@pytest.mark.parametrize("line", [b"7" * (1 << 26), b'{"t": "' + b"7" * (1 << 26)], ids=["csv", "jsonl"])
def test_an_endless_line_is_refused_without_being_read(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "x.gz").write_bytes(packed(b"t,model\n1,a\n" + line if line[0] == 0x37 else line))
    tracemalloc.start()
    try:
        with pytest.raises(
            TraceError, match="the line is longer than 128 KiB; each request is a line of its own"
        ):
            read_trace(tmp_path / "x.gz")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_fault_in_one_batch_of_many_is_found_at_its_line(tmp_path: Path) -> None:
    lines = [f"{i},a,1,1,c,,\n" for i in range(30_000)]
    lines[20_000] = "20000,a,1,1,c,-1,\n"
    (tmp_path / "x").write_text(HEADER + "".join(lines))
    assert refused(tmp_path / "x") == [f'x:20002: think is "-1", {LENGTH}']


def test_a_hundred_thousand_requests_take_little_memory(tmp_path: Path) -> None:
    """Measured in a process of its own: at most twice what they are kept in, beside the program itself."""
    path = tmp_path / "x.csv"
    path.write_text(
        HEADER + "".join(f"{i},m{i % 12},{i % 900},{i % 99},c{i % 50},{i % 7},\n" for i in range(100_000))
    )
    code = (
        "import resource, sys; from pathlib import Path; from reconciler.simulate.trace_read import read_trace\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = most(); print(len(read_trace(Path(sys.argv[1]))), most() - before)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    ).stdout
    count, grown = map(int, out.split())
    assert count == 100_000
    assert grown < 100_000 * 40 * 2 + (8 << 20)
