"""One model of the configuration while it is being converted, and what holds for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.manifest.tree import Mark
from reconciler.migrate.draft import ModelDraft
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap import macros as filling
from reconciler.migrate.llama_swap.comments import Belonging
from reconciler.migrate.llama_swap.values import Section
from reconciler.migrate.secret import Secrets


@dataclass(slots=True)
class Common:
    """What holds for all models."""

    #: The folder that llama-swap was started in, as far as is known: that of its file.
    base: Path
    environ: Mapping[str, str]
    secrets: Secrets = field(default_factory=Secrets)
    macros: Sequence[filling.Macro] = ()
    comments: Belonging = field(default_factory=Belonging)
    #: Seconds without a request until an unload; 0 = never.
    ttl: int = 0
    #: Seconds from a request to stop until a kill; 0 = as the manifest's default.
    unload: int = 0
    loading_state: bool = False
    #: Ports that several models name.
    shared_ports: frozenset[int] = frozenset()


@dataclass(slots=True)
class Job:
    """One model."""

    name: str
    section: Section
    common: Common
    report: Report
    draft: ModelDraft
    macros: Sequence[filling.Macro] = ()
    #: Macros are filled in, placeholders are still llama-swap's.
    cmd: str = ""

    def say(self, kind: Kind, key: str, what: str, advice: str = "") -> None:
        """Note a finding about a key of the model."""
        self.section.say(kind, key, what, advice)

    def at_model(self, kind: Kind, what: str, advice: str = "") -> None:
        """Note a finding about the model as a whole."""
        self.report.add(kind, self.mark, self.section.path, what, advice)

    @property
    def mark(self) -> Mark:
        """Return where the model's keys begin, or its name if it has none."""
        entries = self.section.node.items.values()
        return next((entry.key.mark for entry in entries), self.section.node.mark)

    def expanded(self, key: str, default: str = "", *, pid: bool = False) -> str:
        """Return a text with its macros filled in; unknown ones are noted."""
        source = self.section.scalar(key)
        if source is None:
            return default
        text = source.value
        if key in ("cmd", "cmdStop"):
            text = "\n".join(line for line in text.split("\n") if not line.strip().startswith("#"))
        text = filling.expand(text, self.macros)
        filling.check(text, source, self.section.call(key), self.macros, self.report, pid=pid)
        return text
