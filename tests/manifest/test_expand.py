"""`${env:NAME}`: the only expansion; its value is put in whole and never shown."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, refuse
from reconciler.manifest.expand import ExpandError, expand

ENV = {"A": "one two", "EMPTY": "", "N": "9101", "NESTED": "${env:A}", "SIZE": "2GiB"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${env:A}", "one two"),
        ("x${env:A}y${env:N}", "xone twoy9101"),
        ("${env:NONE:-a b}", "a b"),
        ("${env:NONE:-}", ""),
        ("${env:EMPTY:-d}", "d"),
        ("${env:EMPTY}", ""),
        ("${env:NESTED}", "${env:A}"),
        ("$${env:A}", "${env:A}"),
        ("${port} $HOME ${HOME} $$", "${port} $HOME ${HOME} $$"),
    ],
)
def test_expansion(text: str, result: str) -> None:
    assert expand(text, ENV) == result


@pytest.mark.parametrize(
    "text", ["${env:}", "${env:A", "${env:A-b}", "${env:1A}", "${env:A:b}", "${env:NONE}"]
)
def test_what_cannot_be_expanded(text: str) -> None:
    with pytest.raises(ExpandError):
        expand(text, ENV)


def model(rest: str) -> str:
    return f"{HEAD}models:\n  a:\n    engine: command\n{rest}"


def test_it_works_in_every_kind_of_value(tmp_path: Path) -> None:
    text = model(
        "    command: FAKE --name ${env:A} '${port}'\n"
        "    port: ${env:N}\n"
        "    memory: {steady: '${env:SIZE}'}\n"
        "    env: {X: '${env:N}', Y: '${port}'}\n"
        "    idle_ttl: ${env:TTL:-90}\n"
        "    priority: ${env:P:-high}\n"
        "    aliases: ['${env:ALIAS:-b}']\n"
    )
    applied = accept(tmp_path, text, environ=ENV)
    (spec,) = applied.manifest.models
    launch = applied.launches["a"]
    assert launch.command == ("FAKE", "--name", "one two", "${port}")
    assert (launch.port, launch.env) == (9101, (("X", "9101"), ("Y", "${port}")))
    assert (spec.steady, spec.idle_ttl, spec.priority) == (2 << 30, 90.0, 750)
    assert applied.routes == {"a": "a", "b": "a"}
    assert type(launch.env[0][1]) is str


def test_keys_are_never_expanded(tmp_path: Path) -> None:
    applied = accept(tmp_path, model("    env: {'${env:A}': x}\n"), environ=ENV)
    assert applied.launches["a"].env == (("${env:A}", "x"),)


def test_a_variable_that_is_not_set_is_named_at_its_place(tmp_path: Path) -> None:
    (found,) = refuse(tmp_path, model("    args: [ok, 'x ${env:NOPE} y']\n"))
    assert (found.line, found.col, found.code) == (5, 19, "expansion")
    assert "NOPE" in found.message


def test_an_alias_from_the_environment_can_clash(tmp_path: Path) -> None:
    text = model("    aliases: ['${env:ALIAS}']\n") + "  b: {engine: command}\n"
    (found,) = refuse(tmp_path, text, environ={"ALIAS": "b"})
    assert (found.line, found.code) == (5, "name-clash")


@pytest.mark.parametrize(
    "line",
    [
        "port: ${env:S}",
        "priority: ${env:S}",
        "idle_ttl: ${env:S}",
        "memory: {steady: '${env:S}'}",
        "role: ${env:S}",
    ],
)
def test_the_value_of_a_variable_is_never_repeated(tmp_path: Path, line: str) -> None:
    found = refuse(tmp_path, model(f"    {line}\n"), environ={"S": "CANARY8G"})
    assert found
    assert "CANARY" not in "".join(d.render() + repr(d) for d in found)
