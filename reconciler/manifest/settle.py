"""Which new text is applied at once, and which must first stay the same for a while.

A save in place truncates the file before it writes it. Whoever reads in between sees a file that is empty, cut off
or has lost models, and evicting somebody for that would be wrong.
"""

from dataclasses import dataclass

from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.files import Content

Result = Applied | ManifestError


@dataclass(frozen=True, slots=True)
class Published:
    """What was published last, and the last good one with its bytes."""

    digest: str = ""
    good: Applied | None = None
    good_content: Content | None = None

    def after(self, result: Result, content: Content) -> "Published":
        """Return what is published once `result` is."""
        if isinstance(result, Applied):
            return Published(content.digest, result, content)
        return Published(content.digest, self.good, self.good_content)


def must_settle(new: Result, content: Content, last: Published) -> bool:
    """Tell whether `new` could be half a save: broken, fewer models than before, or text that is cut off.

    The very first text is taken as it is: there is nothing it could lose.
    """
    if not last.digest:
        return False
    if isinstance(new, ManifestError):
        return True
    if last.good is None or last.good_content is None:
        return False
    return bool(last.good.launches.keys() - new.launches.keys()) or _cut_off(content, last.good_content)


def _cut_off(new: Content, old: Content) -> bool:
    """Tell whether a file is the beginning of what it was, or ends within a line where it did not before."""
    before = {file.name: file.data for file in old.files}
    for file in new.files:
        data = before.get(file.name)
        if data is None or data == file.data:
            continue
        if data.startswith(file.data) or (data.endswith(b"\n") and not file.data.endswith(b"\n")):
            return True
    return False
