"""The types of the keys that say who gives way, and whether models are loaded before anybody asks."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainValidator

from reconciler.core.types import Policy, Prewarm
from reconciler.manifest.applied import Probing
from reconciler.manifest.fields import choice, digits, schema

#: Begun at most once a minute, so that more in an hour would mean nothing.
MOST_PER_HOUR: Final = 60

PolicyField = Annotated[Policy, PlainValidator(choice(Policy)), schema(enum=[p.value for p in Policy])]
PrewarmField = Annotated[Prewarm, PlainValidator(choice(Prewarm)), schema(enum=[p.value for p in Prewarm])]
PerHour = Annotated[int, Field(ge=0, le=MOST_PER_HOUR), BeforeValidator(digits)]
LivenessField = Annotated[Probing, PlainValidator(choice(Probing)), schema(enum=[p.value for p in Probing])]
