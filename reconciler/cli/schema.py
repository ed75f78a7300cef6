"""`reconcile schema`: the JSON Schema of the manifest and of what the program prints."""

from typing import Annotated, Literal

from cyclopts import Parameter

from reconciler.cli.output import say_json


def schema(
    which: Annotated[
        Literal["manifest", "plan", "status"], Parameter(help="Which document it describes.")
    ] = "manifest",
    /,
) -> int:
    """Print a JSON Schema.

    Of the manifest, for your editor; or of the plan or the status that --json prints.
    """
    if which == "manifest":
        from reconciler.manifest.schema import manifest_schema

        say_json(manifest_schema())
    else:
        from reconciler.render import schemas

        say_json(schemas.plan_schema() if which == "plan" else schemas.status_schema())
    return 0
