"""A configuration of llama-swap as a manifest."""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.core.memory import Memory
from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import ManifestError, quoted
from reconciler.manifest.names import name_problem
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Map, Mark, SourceFile
from reconciler.manifest.yaml_source import parse
from reconciler.manifest.yaml_text import decode
from reconciler.migrate import converted, hints
from reconciler.migrate.converted import Converted
from reconciler.migrate.draft import PATIENT, PATIENT_HOW, ManifestDraft, ModelDraft
from reconciler.migrate.finding import Kind, Report
from reconciler.migrate.llama_swap import address, comments, macros, model, residency, settings, sizes, top
from reconciler.migrate.llama_swap.job import Common, Job
from reconciler.migrate.llama_swap.routing import Routing
from reconciler.migrate.llama_swap.values import Section, is_null

_LISTEN: Final = (
    "llama-swap listens on all interfaces unless told otherwise, the manifest's gateway on 127.0.0.1:8080"
)
_OPEN: Final = "gateway.listen says where; anything but loopback needs api_keys"


def convert(
    data: bytes, name: str, folder: Path, environ: Mapping[str, str], memory: Memory | None = None
) -> Converted:
    """Return the manifest for a configuration, or why there can be none; `name` is what messages call the file.

    Relative paths are taken from `folder`. Reads the files that the models name, runs nothing. `memory` is what there
    is to say which models fit together; None = that of this machine. Blocks.
    """
    file, report = SourceFile(name, folder), Report()
    problems = Problems()
    text = decode(data, file, problems)
    root = parse(text, file, problems) if text is not None else None
    for diagnostic in _diagnostics(problems):
        report.add(Kind.ERROR, Mark(file, diagnostic[0], diagnostic[1]), "", diagnostic[2], diagnostic[3])
    if not isinstance(root, Map):
        if not report.found:
            report.add(
                Kind.ERROR,
                Mark(file, 0, 0),
                "",
                "there is no configuration in it",
                "it begins with `models:`",
            )
        return converted.empty(report)
    return _Conversion(Section(root, "", report), file, Common(folder, environ), memory).run()


def _diagnostics(problems: Problems) -> Iterator[tuple[int, int, str, str]]:
    try:
        problems.raise_any()
    except ManifestError as error:
        for found in error.diagnostics:
            yield found.line, found.col, found.message, found.hint


@dataclass(slots=True)
class _Conversion:
    root: Section
    file: SourceFile
    common: Common
    memory: Memory | None = None
    draft: ManifestDraft = field(default_factory=ManifestDraft)
    jobs: dict[str, Job] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)
    routing: Routing = field(default_factory=Routing)

    def run(self) -> Converted:
        report = self.root.report
        top.settings(self.root, self.common, self.draft)
        sections = self.sections = dict(self.root.sections("models"))
        if not sections:
            self.root.say(Kind.ERROR, "models", "there are no models in it")
        self._comments(sections)
        names = self._names(sections)
        self._lookalikes(names)
        self.routing = top.routing(self.root, tuple(sections), names)
        self.common.shared_ports = self._shared(sections)
        for name, section in sections.items():
            self._model(name, section)
        top.api_keys(self.root, self.common, self.draft)
        top.peers(self.root)
        alive = {alias: name for alias, name in names.items() if name in self.jobs}
        top.selectors(self.root, alive, self.draft)
        self._place()
        if not self._all_findings().has(Kind.ERROR) and not self.jobs:
            self.root.say(Kind.ERROR, "models", "none of the models can be carried over")
        if self._all_findings().has(Kind.ERROR):
            return converted.empty(self._all_findings())
        report.add(Kind.NOTE, Mark(self.file, 0, 0), "", _LISTEN, _OPEN)
        report.add(Kind.NOTE, Mark(self.file, 0, 0), "", PATIENT, PATIENT_HOW)
        return self._settled()

    # -- the parts -------------------------------------------------------------------------------------------------

    def _comments(self, sections: Mapping[str, Section]) -> None:
        inner = {
            name: comments.in_commands(found)
            for name, section in sections.items()
            for found in [section.scalar("cmd")]
            if found is not None
        }
        all_of_them = comments.find(self.root.node, self.file)
        self.common.comments = comments.belonging(self.root.node, all_of_them, inner)
        self.draft.head = [f"Made from llama-swap's {self.file.name} by `reconcile import llama-swap`."]
        self.draft.head += hints.kept(c.text for c in self.common.comments.head)
        self.draft.tail = hints.kept(c.text for c in self.common.comments.tail)
        if rest := self.common.comments.rest:
            lines = ", ".join(str(c.line) for c in rest[:8]) + (" ..." if len(rest) > 8 else "")
            lines = f"line{'s' if len(rest) > 1 else ''} {lines}"
            what = f"comments that are about no model are not carried over ({lines})"
            self.root.report.add(Kind.NOTE, Mark(self.file, rest[0].line, rest[0].col), "", what)

    def _names(self, sections: Mapping[str, Section]) -> dict[str, str]:
        """Return models by name and alias; a name that two have is noted."""
        names = {name: name for name in sections}
        for name, section in sections.items():
            if problem := name_problem(name):
                what = f"{quoted(name)}: {problem}"
                self.root.report.add(Kind.ERROR, self._mark(name), section.path, what, "rename the model")
            for item in section.ids("aliases"):
                alias, call = item.value, section.call("aliases")
                if problem := name_problem(alias):
                    what = f"{quoted(alias)} is left out: {problem}"
                    section.report.add(Kind.LOST, item.mark, call, what)
                elif alias in sections:
                    what = f'"{alias}" is a model of its own, which is what llama-swap takes it for: left out'
                    section.report.add(Kind.DEAD, item.mark, call, what, "rename one of the two")
                elif alias in names:
                    what = f'"{alias}" is already an alias of {names[alias]}: llama-swap refuses the file'
                    section.report.add(Kind.ERROR, item.mark, call, what, "leave it with one model")
                else:
                    names[alias] = name
        return names

    def _lookalikes(self, names: Mapping[str, str]) -> None:
        """Note names that differ only in how their accents are written: llama-swap takes them for two."""
        seen: dict[str, str] = {}
        for written, called in names.items():
            first = seen.setdefault(unicodedata.normalize("NFC", written), written)
            if first != written:
                what = f"{quoted(written)} is {quoted(first)} already, at {self._mark(names[first])}"
                what += " (compared after Unicode normalisation)"
                call = self.sections[called].path
                self.root.report.add(Kind.ERROR, self._mark(called), call, what, "rename one of the two")

    def _mark(self, name: str) -> Mark:
        """Return where a model's name stands."""
        models = self.root.section("models")
        return self.sections[name].node.mark if models is None else models.mark(name)

    def _shared(self, sections: Mapping[str, Section]) -> frozenset[int]:
        """Return the ports that more than one model names."""
        found = [address.fixed_port(s.text("proxy")) for s in sections.values() if s.has("proxy")]
        return frozenset(port for port in found if port is not None and found.count(port) > 1)

    def _model(self, name: str, section: Section, plain: str = "") -> bool:
        """Convert one model; a second time with the reason why it has no engine but `command`."""
        report = Report()
        section = Section(section.node, section.path, report)
        own = macros.read(section)
        draft = ModelDraft(name)
        job = Job(name, section, self.common, report, draft, macros.merged(name, self.common.macros, own))
        if not is_null(section.node) and model.convert(job, plain=plain):
            settings.convert(job)
            aliases = [
                a for a in draft.keys.get("aliases", []) if a not in self.sections and not name_problem(a)
            ]
            draft.keys["aliases"] = aliases
            if not aliases:
                del draft.keys["aliases"]
            self._commented(job)
            self.jobs[name] = job
            return True
        if report.has(Kind.ERROR) or not plain:
            self.root.report.found += [f for f in report.found if f not in self.root.report.found]
        return False

    def _commented(self, job: Job) -> None:
        own = self.common.comments
        job.draft.above = hints.kept(c.text for c in own.above.get(job.name, []))
        lines = [
            f"{c.key}: {c.text}" if c.key and c.key != job.name else c.text
            for c in own.inside.get(job.name, [])
        ]
        job.draft.inside = [*hints.kept(lines), *job.draft.inside]

    def _place(self) -> None:
        """Put residencies and priorities, by the rules of the router."""
        self.draft.models = [job.draft for job in self.jobs.values()]
        drafts = {name: job.draft for name, job in self.jobs.items()}
        marks = {name: job.mark for name, job in self.jobs.items()}
        residency.put(self.routing, drafts, marks, self.root.report)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _settled(self) -> Converted:
        environ = {**self.common.environ, **self.common.secrets.values}
        try:
            text, applied = converted.settle(
                self.draft, self.root.report, self.common.base, environ, self._plainer
            )
        except ManifestError as error:
            return Converted("", self._all_findings().sorted(), refused=error.diagnostics)
        self._explain(applied)
        self._one_at_a_time()
        left = converted.unset(text, self.common.environ, self.common.secrets.values)
        for name in left:
            what = f"the variable {name} is not set here, and the manifest needs it"
            self.root.report.add(
                Kind.TODO, Mark(self.file, 0, 0), "", what, f"set {name} where reconcile is started"
            )
        return Converted(text, self._all_findings().sorted(), tuple(self.jobs), self.common.secrets.values)

    def _plainer(self, name: str, why: str) -> bool:
        """Make a model one of the engine `command`, if it is not one already."""
        job = self.jobs.get(name)
        if job is None or job.draft.keys.get("engine") == "command":
            return False
        engine = job.draft.keys.get("engine", "llama.cpp")
        done = self._model(name, self.sections[name], f"the engine {engine} refuses it ({why})")
        self._place()
        return done

    def _explain(self, applied: Applied) -> None:
        known, room = sizes.known(applied, self.memory)
        mark = self.root.mark("models")
        residency.explain(self.routing, known, room, mark, self.root.report)

    def _one_at_a_time(self) -> None:
        """Note the llama.cpp models whose slots nobody stated."""
        names = [
            name
            for name, job in self.jobs.items()
            if "engine" not in job.draft.keys
            and "slots" not in job.draft.keys.get("context", {})
            and job.draft.keys.get("role") not in ("embedding", "rerank")
        ]
        if names:
            what = f"no --parallel for {residency.listed(names)}: one request at a time"
            advice = "newer builds of llama-server take four that share the context; context.slots says how many here"
            self.root.say(Kind.NOTE, "models", what, advice)

    def _all_findings(self) -> Report:
        found = [*self.root.report.found, *(f for job in self.jobs.values() for f in job.report.found)]
        return Report(list(dict.fromkeys(found)))
