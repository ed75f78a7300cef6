"""The base of the JSON documents' shapes."""

from typing import ClassVar


class Document:
    """Base of the shapes: the sentences below the fields become the descriptions in the schema."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}
