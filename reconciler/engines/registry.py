"""Which engines exist: each module of this package that defines `ENGINE`. To add one, add a file."""

import importlib
import pkgutil
import re
from functools import cache
from types import MappingProxyType

import reconciler.engines as package
from reconciler.engines.base import Engine


@cache
def _modules() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def _defined_in(module_name: str) -> Engine | None:
    if f"{package.__name__}.{module_name}" == __name__:
        return None
    module = importlib.import_module(f"{package.__name__}.{module_name}")
    engine: Engine | None = getattr(module, "ENGINE", None)
    return engine


@cache
def _engines() -> MappingProxyType[str, Engine]:
    found: dict[str, Engine] = {}
    for module_name in _modules():
        engine = _defined_in(module_name)
        if engine is None:
            continue
        if engine.name in found:
            raise RuntimeError(f"two modules define the engine {engine.name!r}; one is {module_name}")
        found[engine.name] = engine
    return MappingProxyType(found)


def names() -> tuple[str, ...]:
    """Return the values `engine:` may have, sorted."""
    return tuple(sorted(_engines()))


@cache
def get(name: str) -> Engine:
    """Return the engine called `name`; raises `KeyError` if there is none.

    The file that is called like it comes first (`sd.cpp` in `sd_cpp.py`): all others take their time to import.
    """
    likely = re.sub(r"\W", "_", name)
    engine = _defined_in(likely) if likely in _modules() else None
    return engine if engine is not None and engine.name == name else _engines()[name]
