"""The key a llama.cpp server asks for: of several one is enough."""

from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines import api_key
from reconciler.engines.llama import words as llama_words
from reconciler.memory.regular import read_regular

#: Bytes of a file of keys that are read.
_FILE_BYTES: Final = 64 * 1024
_VARIABLES: Final = ("LLAMA_API_KEY",)


def key_of(spec: LaunchSpec) -> str | None:
    """Return the first key of the flags, the variable, or the file of keys; None = it asks for none. May read a file.

    Placeholders are filled in already. A list of keys has commas between them.
    """
    words = (*llama_words.server_words(spec.command), *spec.args)
    env = (*spec.env, *llama_words.assignments(spec.command).items())
    if key := api_key.stated(words, env, _VARIABLES):
        return api_key.usable(key.split(",")[0])
    files = [value for name, value in llama_words.pairs(words) if name == "--api-key-file" and value]
    for file in files:
        try:
            lines = read_regular(Path(spec.cwd) / file, _FILE_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            continue  # the server cannot read it either, and says so
        if found := next(filter(None, map(api_key.usable, lines)), None):
            return found
    return None
