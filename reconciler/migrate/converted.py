"""What a conversion gives, whatever it was made of; and the steps that are the same for all: check, sizes, text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import Diagnostic, ManifestError
from reconciler.migrate import check
from reconciler.migrate.draft import ManifestDraft
from reconciler.migrate.finding import INCOMPLETE, Finding, Kind, Report


@dataclass(frozen=True, slots=True)
class Converted:
    """A manifest, if one could be made, and everything there is to say."""

    #: "" = none could be made.
    text: str
    findings: tuple[Finding, ...]
    #: Names of the models in the manifest, in its order.
    models: tuple[str, ...] = ()
    #: Values that were taken out of it, by the variable that has to hold each.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Why the program's own loader refuses it.
    refused: tuple[Diagnostic, ...] = ()

    @property
    def complete(self) -> bool:
        """Tell whether all was carried over and nothing is left to do."""
        return bool(self.text) and not any(finding.kind in INCOMPLETE for finding in self.findings)


def settle(
    draft: ManifestDraft,
    report: Report,
    directory: Path,
    environ: Mapping[str, str],
    plainer: Callable[[str, str], bool],
) -> tuple[str, Applied]:
    """Return the manifest's text and what it means. Blocks.

    A model that its engine refuses is made again by `plainer(model, why)`, which tells whether it could; then the
    whole is read again. Raises ManifestError where that does not help.
    """
    while True:
        text = draft.text()
        try:
            return text, check.load(text, directory, environ)
        except ManifestError as error:
            wrong = check.models_of(text, error.diagnostics)
            changed = [name for name, found in wrong.items() if name and plainer(name, found[0].message)]
            if not changed:
                raise


def unset(text: str, environ: Mapping[str, str], given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that a manifest needs, that are not set, and that were not just taken out of the source."""
    return tuple(name for name in check.variables(text) if name not in environ and name not in given)


def empty(report: Report) -> Converted:
    """Return a conversion that came to nothing."""
    assert report.has(Kind.ERROR), "nothing came of it without a reason"
    return Converted("", report.sorted())
