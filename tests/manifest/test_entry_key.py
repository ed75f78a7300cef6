"""The key `entry`: a class of a module, and what is said to who names the file in its place."""

import pytest
from pydantic_core import PydanticCustomError

from reconciler.manifest.engine_fields import _entry
from reconciler.manifest.scalars import Expanded


@pytest.mark.parametrize("text", ["bag:Bag", "desk.bag:Bag", "_a._b:_C"])
def test_classes_of_modules(text: str) -> None:
    assert _entry(text) == text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bag.py:Bag", "did you mean bag:Bag?"),
        ("desk/bag.py:Bag", "did you mean desk.bag:Bag?"),
        ("./bag.py:Bag", "did you mean bag:Bag?"),
        ("bag", "write package.module:Class"),
        (3, "write package.module:Class"),
        (Expanded("secret.py:Bag"), "write package.module:Class"),
    ],
)
def test_what_is_no_class_of_a_module(text: object, hint: str) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        _entry(text)
    assert hint in str((refused.value.context,))
