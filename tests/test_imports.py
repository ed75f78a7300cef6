"""What a start does not import: each start of the program waits for all it imports, and so does who started it."""

import subprocess
import sys
from pathlib import Path

import pytest

MANIFEST = Path(__file__).parents[1] / "manifests"
#: What a program imports before it does anything, and what it must not: that is needed once somebody asks for it.
PROGRAMS = {
    "manager": (
        "import reconciler.telemetry, reconciler.app",
        (
            "rich pygments jsonschema httpx._main reconciler.wire reconciler.simulate"
            " reconciler.doctor reconciler.measure reconciler.render.status_document reconciler.core.advice"
            " reconciler.render.history_shapes reconciler.gateway.openapi.document reconciler.gateway.metrics.page"
            " reconciler.render.shapes reconciler.memory.macos"
            " reconciler.engines.vllm"
        ),
    ),
    "status": (
        (
            "from reconciler.cli import make_app; make_app(['status']); import reconciler.cli.client,"
            " reconciler.render.status_text"
        ),
        "rich pydantic anyio starlette structlog reconciler.manifest reconciler.gateway reconciler.cli.simulate",
    ),
    "validate": (
        (
            "import os, pathlib, reconciler.cli.validate, reconciler.loop.preflights; from reconciler.manifest import"
            f" load_manifest; load_manifest(pathlib.Path({str(MANIFEST)!r}), environ=os.environ)"
        ),
        "rich starlette uvicorn uvloop reconciler.gateway reconciler.loop.loop reconciler.engines.vllm",
    ),
}


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_start_imports_no_more_than_it_needs(program: str) -> None:
    code, spared = PROGRAMS[program]
    code += f"; import sys; print([name for name in {spared.split()} if sys.modules.get(name)])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.stdout == "[]\n", done.stderr
