"""Collects everything that is wrong, so that one run names it all."""

import difflib
from collections.abc import Iterable

from reconciler.manifest.diagnostics import Diagnostic, ManifestError, masked
from reconciler.manifest.tree import Mark, Node, Scalar, SourceFile, secret_scalars


class Problems:
    """The diagnostics found so far. Snippets are cut at the end, when it is known what in them is secret."""

    def __init__(self) -> None:
        self._found: list[tuple[Mark, Diagnostic]] = []
        self._roots: list[Node] = []
        #: Files besides the manifest's own that were looked at, absolute paths.
        self.also_read: list[str] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, code: str, message: str, hint: str = "") -> None:
        """Note one problem at one place."""
        self._found.append((mark, Diagnostic(mark.file.name, mark.line, mark.col, code, message, hint)))

    def add_file(self, file: SourceFile, code: str, message: str, hint: str = "") -> None:
        """Note a problem of a file as a whole."""
        self.add(Mark(file, 0, 0), code, message, hint)

    def know(self, root: Node) -> None:
        """Remember a document, whose secrets are masked in what is shown."""
        self._roots.append(root)

    def raise_any(self) -> None:
        """Raise ManifestError if anything was noted."""
        if self._found:
            raise ManifestError(self._finished(), self.also_read)

    def _finished(self) -> list[Diagnostic]:
        secrets: dict[int, list[Scalar]] = {}
        for root in self._roots:
            for scalar in secret_scalars(root):
                secrets.setdefault(id(scalar.mark.file), []).append(scalar)
        return [_with_snippet(mark, d, secrets.get(id(mark.file), [])) for mark, d in self._found]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` was probably meant to be, or None."""
    options = sorted(known)
    by_case = {o.lower().replace("-", "_"): o for o in options}
    folded = word.lower().replace("-", "_")
    if folded in by_case:
        return by_case[folded]
    close = difflib.get_close_matches(folded, sorted(by_case), n=1, cutoff=0.7)
    return by_case[close[0]] if close else None


def _with_snippet(mark: Mark, found: Diagnostic, secrets: list[Scalar]) -> Diagnostic:
    if not found.line:
        return found
    line = mark.file.line(found.line)
    spans = []
    for scalar in secrets:
        (first, start), (last, stop) = (scalar.mark.line, scalar.mark.col), scalar.end
        if first <= found.line <= last:
            spans.append(
                (start - 1 if first == found.line else 0, stop - 1 if last == found.line else len(line))
            )
    shown = masked(line, spans)
    return Diagnostic(found.file, found.line, found.col, found.code, found.message, found.hint, shown)
