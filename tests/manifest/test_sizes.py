"""Sizes, durations and shares: what is accepted, and that nothing ambiguous is."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifest_texts import HEAD, accept, refuse
from reconciler.manifest.sizes import (
    DURATION_PATTERN,
    SIZE_LIMIT,
    SIZE_PATTERN,
    UNITS,
    UnitError,
    format_size,
    parse_duration,
    parse_percent,
    parse_size,
)

ACCEPTED = {
    "8Gi": 8589934592,
    "8GiB": 8589934592,
    "8GB": 8000000000,
    "512Mi": 536870912,
    "512MiB": 536870912,
    "1.5Gi": 1610612736,
    "  8Gi ": 8589934592,
    "8 GiB": 8589934592,
    "1073741824": 1073741824,
    "0": 0,
}
AMBIGUOUS = {
    "8G": "write 8GiB (1024-based) or 8GB (1000-based)",
    "8g": "write 8GiB (1024-based) or 8GB (1000-based)",
    "8gb": "write 8GiB (1024-based) or 8GB (1000-based)",
    "8gib": "write 8GiB (1024-based) or 8GB (1000-based)",
    "8K": "write 8KiB (1024-based) or 8KB (1000-based)",
    "1e9": "write 1000000000 or a unit",
    "1_000_000": "write 1000000",
    "0777": "write 777",
}
REJECTED = (
    *(
        "8Gb",
        "8Gib",
        "8GBps",
        "-1Gi",
        ".inf",
        ".nan",
        "Gi",
        "",
        "8Gi8",
        "8,5Gi",
        "0x200",
        "9999999999Gi",
        "true",
    ),
    *("12:30", "~", "8 Gi B", "8GiB\n", "٨Gi", "1.5", "1.Gi", ".5Gi", "+1Gi"),
)


def memory(written: str) -> str:
    return f"{HEAD}models:\n  a: {{memory: {{steady: {written}}}}}\n"


@pytest.mark.parametrize("quote", ['"{}"', "{}"])
@pytest.mark.parametrize(("text", "size"), ACCEPTED.items())
def test_accepted_sizes_mean_one_number_of_bytes(tmp_path: Path, text: str, size: int, quote: str) -> None:
    applied = accept(tmp_path, memory(quote.format(text)))
    assert applied.manifest.models[0].steady == size


@pytest.mark.parametrize("quote", ['"{}"', "{}"])
@pytest.mark.parametrize(("text", "hint"), AMBIGUOUS.items())
def test_ambiguous_sizes_are_refused_with_what_to_write(
    tmp_path: Path, text: str, hint: str, quote: str
) -> None:
    (found,) = refuse(tmp_path, memory(quote.format(text)))
    assert (found.line, found.col, found.code, found.hint) == (3, 24, "size", hint)
    assert text in found.message


@pytest.mark.parametrize("text", REJECTED)
def test_rejected_sizes(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnitError):
        parse_size(text)
    written = text.replace("\n", "\\n")
    assert [d.code for d in refuse(tmp_path, memory(f'"{written}"'))] == ["size"]


@pytest.mark.parametrize("written", ["true", ".inf", ".nan", "-1", "1.5", "0x200", "0o17", "[1]", "{a: 1}"])
def test_what_yaml_reads_as_something_else_is_no_size(tmp_path: Path, written: str) -> None:
    assert [d.code for d in refuse(tmp_path, memory(written))] == ["size"]


def test_an_unquoted_tilde_is_no_value(tmp_path: Path) -> None:
    assert [d.code for d in refuse(tmp_path, memory("~"))] == ["empty-value"]


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    text = f"{number}{unit}"
    if number * UNITS[unit] <= SIZE_LIMIT:
        assert parse_size(text) == number * UNITS[unit]
    assert re.search(SIZE_PATTERN, text)


@given(st.text(alphabet="0159.eE_ -+,KMGTkgibB\tx", max_size=12))
def test_the_schemas_pattern_accepts_what_the_code_accepts(text: str) -> None:
    for parse, pattern in ((parse_size, SIZE_PATTERN), (parse_duration, DURATION_PATTERN)):
        try:
            parse(text)
        except UnitError:
            continue
        assert re.search(pattern, text), text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("300s", 300), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172800), ("0", 0), ("12", 12)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize("number", [0, 60, 0.25])
def test_plain_numbers_are_seconds(number: float) -> None:
    assert parse_duration(number) == number


@pytest.mark.parametrize(
    "value",
    [
        "",
        "m",
        "5M",
        "5 m",
        "1m1h",
        "1m1m",
        "-5m",
        "5min",
        "1e3",
        "036",
        True,
        None,
        [],
        float("inf"),
        "99999d",
    ],
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(UnitError):
        parse_duration(value)


@pytest.mark.parametrize(("text", "share"), [("75%", 0.75), ("10%", 0.1), ("0%", 0.0), (" 12.5 % ", 0.125)])
def test_percentages(text: str, share: float) -> None:
    assert parse_percent(text) == share


@pytest.mark.parametrize("text", ["101%", "-1%", "%", "1,5%", "10 percent"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(UnitError):
        parse_percent(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (100 << 20, "100 MiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text
