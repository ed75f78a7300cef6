"""A model that no path of the data API reaches: clients are sent to its own addresses, and to nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway_rig import rig, snapshot
from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import ModelSpec
from reconciler.manifest import ManifestError, load_manifest
from reconciler.manifest.applied import RequestLimits

pytestmark = pytest.mark.anyio


def comfy() -> Snapshot:
    """Return a snapshot with a ComfyUI."""
    made = snapshot(ModelSpec("comfy", "d"))
    launches = {"comfy": LaunchSpec("comfy", "comfyui", role=Role.IMAGE)}
    limits = {"comfy": RequestLimits(role=Role.IMAGE)}
    return replace(made, applied=replace(made.applied, launches=launches, limits=limits))


async def test_a_refusal_names_where_it_answers_and_the_list_promises_nothing() -> None:
    async with rig() as r:
        r.publish(comfy())
        answer = await r.post({"model": "comfy", "prompt": "a cat"}, "/v1/images/generations")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "wrong_role")
        assert error["message"] == (
            "'comfy' answers no path of the data API, but its engine's own below /upstream/comfy/"
        )
        [entry] = (await r.client.get("/v1/models")).json()["data"]
        assert (entry["id"], entry["capabilities"]) == ("comfy", [])


async def test_no_virtual_model_stands_for_what_could_never_answer(tmp_path: Path) -> None:
    (tmp_path / "ui").mkdir()
    text = """
apiVersion: reconciler/v1
models:
  comfy: {engine: comfyui, cwd: ui, memory: {steady: 4GiB}, role: image}
virtual:
  draw: {use: comfy}
"""
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "m.yaml", environ={})
    [problem] = caught.value.diagnostics
    assert "answers no path of the data API" in problem.message
    assert problem.hint == "clients reach it at /upstream/comfy/"
