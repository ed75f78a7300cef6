"""The committed JSON Schema is what the code says, and an editor that uses it agrees with the loader."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from manifest_texts import FULL, HEAD, accept, refuse
from reconciler.manifest.schema import SCHEMA_PATH, main, manifest_schema, schema_text
from reconciler.manifest.sections import sections

ROOT = Path(__file__).parents[2]


def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(manifest_schema())


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_the_committed_schema_is_the_generated_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCHEMA_PATH.read_text("utf-8") == schema_text()
    assert main(["--check"]) == 0
    assert main(["--nope"]) == 64
    assert "usage" in capsys.readouterr().err


def test_it_is_a_valid_schema_that_says_which() -> None:
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].endswith("manifest.v1.json")


def test_every_key_has_a_description() -> None:
    schema = manifest_schema()
    places = {"": schema, **schema["$defs"]}
    bare = [
        f"{place}.{name}"
        for place, part in places.items()
        for name, field in part.get("properties", {}).items()
        if "description" not in field and not _described(field, schema)
    ]
    assert bare == []


def _described(field: dict[str, Any], schema: dict[str, Any]) -> bool:
    return "description" in schema["$defs"].get(field.get("$ref", "").rpartition("/")[2], {})


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("manifests/*.yaml"), *ROOT.glob("examples/**/manifest*.yaml")])
)
def test_shipped_manifests_follow_the_schema(path: Path) -> None:
    validator().validate(parsed(path.read_text("utf-8")))
    assert path.read_text("utf-8").startswith("# yaml-language-server: $schema=")


ACCEPTED = [
    FULL,
    f"{HEAD}models: {{}}\n",
    f"{HEAD}models: {{a: {{command: 'x y', engine: command}}}}\n",
    f"{HEAD}gateway: {{api_keys: ['k']}}\nmodels: {{}}\n",
    f"{HEAD}models: {{a: {{port: '${{env:P:-9101}}', role: '${{env:R:-chat}}', idle_ttl: '${{env:T:-1h}}'}}}}\n",
    f"{HEAD}models: {{a: {{memory: {{steady: auto, peak: ' 8 GiB '}}, idle_ttl: never, priority: -5}}}}\n",
    f"{HEAD}machine: {{memory: auto, reserve: 2GiB}}\nmodels: {{'org/Model:Q4': {{timeouts: {{request: 0.5}}}}}}\n",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_the_loader_accepts_the_schema_accepts(tmp_path: Path, text: str) -> None:
    accept(tmp_path, text)
    validator().validate(parsed(text))


REFUSED = [
    "machine: {memory: 8G}",
    "machine: {ports: 1}",
    "gateway: {listen: x}",
    "gateway: {api_keys: {fil: x}}",
    "models: {a: {port: 0}}",
    "models: {a: {prt: 9101}}",
    "models: {a: {args: [1]}}",
    "models: {a: {env: {A: 1}}}",
    "models: {a: {residency: Pinned}}",
    "models: {a: {idle_ttl: 5 m}}",
    "models: {a: {context: {slots: '2'}}}",
    "models: {/a: {}}",
    "models: ~",
    "defaults: {port: 9101}",
    "port: 8080",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_an_editor_marks_the_loader_refuses(tmp_path: Path, text: str) -> None:
    assert refuse(tmp_path, f"{HEAD}{text}\n")
    assert not validator().is_valid(parsed(HEAD + text))


def test_every_key_is_in_the_users_page() -> None:
    page = (ROOT / "docs" / "manifest.md").read_text("utf-8")
    assert sorted({key for keys in sections().values() for key in keys if f"`{key}`" not in page}) == []


def test_the_loader_never_imports_the_schema_validator() -> None:
    code = "import sys, reconciler.manifest.load, reconciler.manifest.watch; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
