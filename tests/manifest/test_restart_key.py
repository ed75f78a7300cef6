"""`restart`: the age of a process at which it is replaced is no age at which it has hardly been loaded."""

import pytest
from pydantic_core import PydanticCustomError

from reconciler.manifest.fields import _age


@pytest.mark.parametrize(("value", "seconds"), [("never", None), ("1m", 60.0), (60, 60.0), ("24h", 86_400.0)])
def test_ages(value: object, seconds: float | None) -> None:
    assert _age(value) == seconds


@pytest.mark.parametrize("value", ["1s", 59.9, "59s"])
def test_an_age_below_a_minute_is_refused(value: object) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        _age(value)
    assert "at least 1m" in str(refused.value.context)
