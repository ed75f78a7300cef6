"""How the threads of servers built on ggml wait for each other: the same for llama.cpp and its relatives."""

from reconciler.core.launch import LaunchSpec
from reconciler.engines.llama import settings as llama_settings


def variables(spec: LaunchSpec) -> dict[str, str]:
    """Return what has them wait without taking the cores of others; nothing where the manifest says one of it."""
    # Together or not at all: a policy of the user's means nothing beside our count.
    own = dict(spec.env).keys() & llama_settings.COMMON_ENV.keys()
    return {} if own else dict(llama_settings.COMMON_ENV)
