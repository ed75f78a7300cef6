"""API keys kept in a file of their own."""

import re

from reconciler.manifest.document import ApiKeyFile, Gateway
from reconciler.manifest.explain import place
from reconciler.manifest.fields import KEY_PATTERN
from reconciler.manifest.files import FILE_LIMIT, explain_os_error, read_regular
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map


def read_keys(gateway: Gateway, root: Map, problems: Problems) -> tuple[str, ...]:
    """Return the keys of the gateway. Notes a file that cannot be read, is empty or holds odd characters. Blocks."""
    if gateway.api_keys is None:
        return ()
    if not isinstance(gateway.api_keys, ApiKeyFile):
        return tuple(dict.fromkeys(gateway.api_keys))
    where = place(root, ("gateway", "api_keys", "file"))
    path = (where.file.directory / gateway.api_keys.file).absolute()
    problems.also_read.append(str(path))
    try:
        data = read_regular(path)
        lines = data.decode("utf-8-sig").splitlines()
    except OSError as error:
        problems.add(where, "api-keys", f"the file of API keys cannot be read: {explain_os_error(error)}")
        return ()
    except UnicodeDecodeError:
        problems.add(where, "api-keys", "the file of API keys is not UTF-8", "save it as UTF-8")
        return ()
    if len(data) > FILE_LIMIT:
        problems.add(where, "api-keys", f"the file of API keys has more than {FILE_LIMIT >> 20} MiB")
        return ()
    keys = {
        n: line.strip()
        for n, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for number, key in keys.items():
        if not re.fullmatch(KEY_PATTERN, key):
            message = f"line {number} of the file of API keys is not a key"
            problems.add(where, "api-keys", message, "a key has visible ASCII characters and no blanks")
    if not keys:
        problems.add(where, "api-keys", "the file of API keys has no key in it", "write one key a line")
    return tuple(dict.fromkeys(keys.values()))
