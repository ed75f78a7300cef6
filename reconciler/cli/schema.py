"""`reconcile schema`: the JSON Schema of the manifest and of what the program prints."""

from typing import Annotated, Literal

from cyclopts import Parameter

from reconciler.cli.output import say_json


def schema(
    which: Annotated[
        Literal[
            "manifest",
            "plan",
            "status",
            "budget",
            "measure",
            "doctor",
            "advice",
            "events",
            "history",
            "requests",
            "simulate",
            "service",
            "init",
            "import",
            "diff",
            "timeline",
            "model",
            "log",
            "whoami",
            "version",
        ],
        Parameter(help="Which document it describes."),
    ] = "manifest",
    /,
) -> int:
    """Print a JSON Schema.

    Of the manifest, for your editor; or of what a command prints with --json.
    """
    if which == "manifest":
        from reconciler.manifest.schema import manifest_schema

        say_json(manifest_schema())
    else:
        from reconciler.render.schemas import SCHEMAS

        say_json(SCHEMAS[which]())
    return 0
