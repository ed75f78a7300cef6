"""The keys of `virtual:`."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from reconciler.manifest import fields as f
from reconciler.manifest import gateway_fields as g
from reconciler.manifest.parts import Part, written

Use = Annotated[
    tuple[f.Text, ...],
    BeforeValidator(g.one_or_more),
    Field(strict=False, min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ]
        }
    ),
]


class WhenPart(Part):
    """What a request must be like; all that is said must hold."""

    role: g.AskedRole | None = Field(default=None, description="What it asks for by its path.")
    image: g.Flag | None = Field(default=None, description="Whether there is an image in it.")
    code: g.Flag | None = Field(
        default=None, description="Whether the last turn of the user has program text in it."
    )
    tools: g.Flag | None = Field(default=None, description="Whether it brings tools.")
    min_tokens: f.CountOrZero | None = Field(
        default=None,
        description="Tokens its prompt has at least, by the estimate of the gateway (bytes / 3).",
    )
    max_tokens: f.CountOrZero | None = Field(
        default=None, description="Tokens its prompt has at most, by the estimate of the gateway (bytes / 3)."
    )
    header: Annotated[dict[g.HeaderName, g.HeaderValue], Field(min_length=1, max_length=1)] | None = Field(
        default=None, description="A header it must have, with this value; null = with any."
    )

    @property
    def conditions(self) -> int:
        """How many conditions there are; 0 = every request is meant."""
        return sum(getattr(self, name) is not None for name in type(self).model_fields)


class RulePart(Part):
    """When this holds, one of these models answers."""

    when: WhenPart = Field(
        default_factory=WhenPart, description="What a request must be like; nothing said = any request."
    )
    use: Use = Field(description="The model that answers, or several by preference: names or aliases.")
    strategy: g.StrategyField | None = Field(
        default=None, description="Which of several answers. Default: as the virtual model says."
    )


class VirtualModel(Part):
    """A name behind which several models stand; the first rule that holds decides which one answers."""

    rules: Annotated[tuple[RulePart, ...], Field(strict=False)] = Field(
        default=(), description="Rules, tried from the first to the last."
    )
    use: Use | None = Field(
        default=None, description="Who answers where no rule holds: a model, or several by preference."
    )
    strategy: g.StrategyField = written(
        "first",
        description="Which of several answers: the first that can be loaded at all (first), the first in memory "
        "(ready), or the first in memory or with room for it (fits).",
    )
