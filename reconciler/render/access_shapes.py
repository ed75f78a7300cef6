"""The shape of what is told of the key that asks."""

from dataclasses import dataclass

from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class WhoamiDocument(Document):
    """What GET /api/v1/whoami answers."""

    key: str | None
    """Name of the API key that was sent; null for one without a name, and where none is asked for."""
    scopes: tuple[str, ...]
    """What it allows, sorted: `admin`, `infer`, `read`."""
    open: bool
    """The manifest has no API keys: whoever reaches the address may do everything."""
