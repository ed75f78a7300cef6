"""What every mapping of the manifest has in common."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def written(default: str, description: str) -> Any:
    """Return a field whose default is written as in a manifest, and read like any value."""
    return Field(default=default, description=description)


class Part(BaseModel):
    """A mapping of the manifest. No value is ever converted to another type, and none appears in an error."""

    #: `defer_build`: only the whole document is ever validated, so that its parts need no validator of their own.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        validate_default=True,
        defer_build=True,
    )
