"""Every word that the program says has a meaning, and its page has the place that is named."""

import ast
import re
from pathlib import Path

import pytest

from reconciler.core.crashes import FailureKind
from reconciler.core.types import Reason
from reconciler.gateway.errors import CODES
from reconciler.glossary import all_words, find, nearest
from reconciler.glossary.page import PATH, main, page
from reconciler.glossary.words import Kind

ROOT = Path(__file__).parents[2]
#: Functions of the manifest's modules that take a code, and where among the arguments it is.
NOTING = {"refuse": 0, "add": 1, "add_file": 1, "matching": 1}


def names(kind: Kind) -> set[str]:
    return {word.name for word in all_words() if word.kind is kind}


def codes_in(path: Path) -> set[str]:
    """Return the codes of faults that a module notes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = NOTING.get(called)
            if place is not None and len(node.args) > place:
                code = node.args[place]
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    found.add(code.value)
    return {code for code in found if re.fullmatch(r"[a-z]+(-[a-z]+)*", code)}


def anchors(page: Path) -> set[str]:
    """Return the places of a page that can be named, as GitHub names them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_reason_failure_and_error_is_explained() -> None:
    assert names(Kind.VERDICT) == {reason.value for reason in Reason}
    assert names(Kind.FAILURE) == {kind.value for kind in FailureKind}
    assert names(Kind.ERROR) == set(CODES)


def test_every_code_of_a_fault_is_explained() -> None:
    noted = set().union(*(codes_in(path) for path in (ROOT / "reconciler" / "manifest").glob("*.py")))
    assert len(noted) > 50
    assert noted - names(Kind.FAULT) == set()


def test_every_condition_is_explained() -> None:
    text = (ROOT / "reconciler" / "core" / "status.py").read_text("utf-8")
    said = set(re.findall(r'[(\[]\(?"([A-Z]\w+)", Truth', text)) | set(
        re.findall(r'append\(\("([A-Z]\w+)"', text)
    )
    assert "ManifestValid" in said
    assert said <= names(Kind.CONDITION) | names(Kind.VERDICT)


@pytest.mark.parametrize("word", sorted({word.page for word in all_words()}))
def test_the_place_that_is_named_is_there(word: str) -> None:
    name, _, place = word.partition("#")
    assert not place or place in anchors(ROOT / "docs" / name)
    assert (ROOT / "docs" / name).is_file()


def test_a_word_is_found_however_it_is_written() -> None:
    assert [w.name for w in find("make-room")] == []
    assert [w.name for w in find("makeroom")] == ["MakeRoom"]
    assert [w.name for w in find("[unknown_key]")] == ["unknown-key"]
    assert [w.kind for w in find("Crashed")] == [Kind.VERDICT, Kind.FAILURE]
    assert nearest("VictimBusy") == "VictimsBusy"
    assert nearest("zzz") is None


def test_the_page_is_the_one_that_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    assert PATH.read_text("utf-8") == page()
    assert main(["--check"]) == 0
    assert main([]) == 64
    assert "usage" in capsys.readouterr().err
