"""`limits:` of a model: what it means, and what is refused with its place."""

from pathlib import Path

import pytest

from reconciler.core.launch import Limits, launch_digest
from reconciler.manifest import Applied, ManifestError, load_manifest

MIB = 1 << 20


def load(tmp_path: Path, limits: str, defaults: str = "") -> Applied:
    """Read a manifest with one model that has these limits."""
    file = tmp_path / "models.yaml"
    stated = f", limits: {limits}" if limits else ""
    file.write_text(
        f"apiVersion: reconciler/v1\n{defaults}models:\n"
        f"  a: {{engine: command, port: 9101, command: [x], memory: {{steady: 1MiB}}{stated}}}\n"
    )
    return load_manifest(file, environ={})


def test_all_of_them_reach_the_launch(tmp_path: Path) -> None:
    applied = load(
        tmp_path, "{memory: 8GiB, oom_score_adj: -500, rlimits: {nofile: 4096, core: unlimited, as: 64GiB}}"
    )
    assert applied.launches["a"].limits == Limits(8 << 30, -500, 4096, -1, 64 << 30)


def test_nothing_said_is_no_limit_and_no_other_launch(tmp_path: Path) -> None:
    bare = load(tmp_path, "").launches["a"]
    none = load(tmp_path, "{memory: none}").launches["a"]
    limited = load(tmp_path, "{memory: 2MiB}").launches["a"]
    assert bare.limits == none.limits == Limits()
    assert launch_digest(bare) == launch_digest(none) != launch_digest(limited)


def test_defaults_are_for_all_models(tmp_path: Path) -> None:
    applied = load(tmp_path, "{rlimits: {core: 0}}", "defaults: {limits: {memory: 1GiB}}\n")
    assert applied.launches["a"].limits == Limits(memory=1 << 30, core=0)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("{memory: 100KiB}", "write at least 1MiB, or none"),
        ("{oom_score_adj: 2000}", "write 1000 or less"),
        ("{rlimits: {nofile: 0}}", "write 1 or more"),
        ("{rlimits: {core: lots}}", '"lots" is not a size'),
        ("{rlimits: {address_space: 1GiB}}", "unknown key"),
        ("{cpu: 3}", "unknown key"),
    ],
)
def test_what_means_nothing_is_refused_at_its_place(tmp_path: Path, limits: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, limits)
    [diagnostic] = caught.value.diagnostics
    assert said in f"{diagnostic}; {diagnostic.hint}"
    assert "models.yaml:3:" in str(diagnostic)
