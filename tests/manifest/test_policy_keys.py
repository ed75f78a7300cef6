"""`policy`, `prewarm`, `prewarm_per_hour` and `cooldown`: what they become, and how a wrong one is answered."""

from pathlib import Path

import pytest

from manifest_texts import HEAD, accept, load, refuse
from reconciler.core.types import Policy, Prewarm
from reconciler.manifest import ManifestError


def test_who_says_nothing_gets_the_cheap_and_the_free(tmp_path: Path) -> None:
    manifest = accept(tmp_path, f"{HEAD}models: {{a: {{}}}}\n").manifest
    assert (manifest.policy, manifest.prewarm, manifest.prewarm_per_hour) == (Policy.COST, Prewarm.FREE, 20)
    assert manifest.models[0].cooldown == 0


@pytest.mark.parametrize("mode", list(Prewarm))
def test_each_mode_is_a_plain_word(mode: Prewarm, tmp_path: Path) -> None:
    text = f"{HEAD}prewarm: {mode.value}\nprewarm_per_hour: 0\nmodels: {{a: {{}}}}\n"
    manifest = accept(tmp_path, text).manifest
    assert (manifest.prewarm, manifest.prewarm_per_hour) == (mode, 0)


def test_a_cooldown_may_be_a_default_and_come_from_the_environment(tmp_path: Path) -> None:
    text = (
        f"{HEAD}policy: '${{env:WHO}}'\nprewarm_per_hour: '${{env:MANY}}'\n"
        "defaults: {cooldown: 1m}\nmodels: {a: {}, b: {cooldown: 5}}\n"
    )
    manifest = accept(tmp_path, text, environ={"WHO": "lru", "MANY": "3"}).manifest
    assert (manifest.policy, manifest.prewarm_per_hour) == (Policy.LRU, 3)
    assert [m.cooldown for m in manifest.models] == [60, 5]


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("policy: costs", "choice", "did you mean cost?"),
        ("policy: ~", "empty-value", ""),
        ("prewarm: false", "choice", "did you mean off?"),
        ("prewarm: true", "choice", "write one of off, free, full"),
        ("prewarm: fre", "choice", "did you mean free?"),
        ("prewarm_per_hour: 61", "range", ""),
        ("prewarm_per_hour: -1", "range", ""),
        ("prewarm_per_hour: never", "wrong-type", ""),
        ("defaults: {cooldown: never}", "duration", ""),
        ("defaults: {policy: lru}", "misplaced-key", "top level"),
        ("cooldown: 1m", "misplaced-key", "defaults.cooldown or models.NAME.cooldown"),
        ("prewarn: off", "unknown-key", "did you mean prewarm?"),
    ],
)
def test_what_is_refused(text: str, code: str, hint: str, tmp_path: Path) -> None:
    [found] = refuse(tmp_path, f"{HEAD}{text}\nmodels: {{a: {{}}}}\n")
    assert found.code == code
    assert hint in found.hint


def test_a_change_of_them_restarts_nothing_and_is_a_change(tmp_path: Path) -> None:
    before = accept(tmp_path, f"{HEAD}models: {{a: {{}}}}\n")
    text = "policy: lru\nprewarm: full\nprewarm_per_hour: 5\ndefaults: {cooldown: 1m}\nmodels: {a: {}}\n"
    after = accept(tmp_path, f"{HEAD}{text}")
    assert before.launches == after.launches
    assert before.manifest.models[0].digest == after.manifest.models[0].digest
    assert before.digest != after.digest


def test_one_file_of_a_directory_says_it_for_all(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(f"{HEAD}policy: lru\nmodels: {{a: {{}}}}\n")
    (tmp_path / "2.yaml").write_text(f"{HEAD}prewarm: full\nmodels: {{b: {{}}}}\n")
    manifest = load(tmp_path).manifest
    assert (manifest.policy, manifest.prewarm) == (Policy.LRU, Prewarm.FULL)
    (tmp_path / "2.yaml").write_text(f"{HEAD}policy: cost\nmodels: {{b: {{}}}}\n")
    with pytest.raises(ManifestError, match="policy is defined twice"):
        load(tmp_path)
