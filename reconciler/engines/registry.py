"""Which engines exist: each module of this package that defines `ENGINE`. To add one, add a file."""

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

import reconciler.engines as package
from reconciler.engines.base import Engine


@cache
def _engines() -> MappingProxyType[str, Engine]:
    found: dict[str, Engine] = {}
    for module_name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        if f"{package.__name__}.{module_name}" == __name__:
            continue
        module = importlib.import_module(f"{package.__name__}.{module_name}")
        engine: Engine | None = getattr(module, "ENGINE", None)
        if engine is None:
            continue
        if engine.name in found:
            raise RuntimeError(f"two modules define the engine {engine.name!r}; one is {module.__name__}")
        found[engine.name] = engine
    return MappingProxyType(found)


def names() -> tuple[str, ...]:
    """Return the values `engine:` may have, sorted."""
    return tuple(sorted(_engines()))


def get(name: str) -> Engine:
    """Return the engine called `name`; raises `KeyError` if there is none."""
    return _engines()[name]
