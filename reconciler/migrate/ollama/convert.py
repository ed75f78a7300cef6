"""Ollama's models as a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from reconciler.core.launch import Role
from reconciler.core.types import Reason
from reconciler.core.words import counted, size
from reconciler.initial.found import LeftOut, Model
from reconciler.initial.gguf_models import judged
from reconciler.loop.preflights import examine
from reconciler.manifest import files
from reconciler.manifest.applied import Applied
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.tree import Mark, SourceFile
from reconciler.memory.gguf import Weights, WeightsError, find_weights
from reconciler.migrate import converted, hints
from reconciler.migrate.converted import Converted
from reconciler.migrate.draft import PATIENCE, PATIENT, PATIENT_HOW, ManifestDraft, ModelDraft
from reconciler.migrate.finding import Kind, Report, shown
from reconciler.migrate.ollama import parameters
from reconciler.migrate.ollama.store import Tag, names, same, tags, unfinished

Engine = Literal["llama.cpp", "ollama"]
_KEEP: Final = "keep it with Ollama's own server: --engine ollama"
_API: Final = "Ollama's own API (/api/chat, /api/generate) is not served: clients use OpenAI's or Anthropic's"
#: Letters of a system prompt that are repeated in a comment.
_SHOWN: Final = 200


def convert(folder: Path, environ: Mapping[str, str], engine: Engine = "llama.cpp") -> Converted:
    """Return the manifest for all models in Ollama's folder. Blocks: it reads headers of weights. Runs nothing."""
    return _Conversion(folder, environ, engine).run()


@dataclass(slots=True)
class _Conversion:
    folder: Path
    environ: Mapping[str, str]
    engine: Engine
    report: Report = field(default_factory=Report)
    draft: ManifestDraft = field(default_factory=ManifestDraft)
    #: Models whose template is another now, and those that could have more context than they get.
    templated: list[str] = field(default_factory=list)
    shorter: list[str] = field(default_factory=list)

    def run(self) -> Converted:
        where = Mark(SourceFile(str(self.folder), self.folder), 0, 0)
        if not (self.folder / "manifests").is_dir():
            what = "there is no folder `manifests` in it, so it is not Ollama's folder of models"
            self.report.add(Kind.ERROR, where, "", what, "name the folder that OLLAMA_MODELS names")
            return converted.empty(self.report)
        for group in same(list(tags(self.folder))):
            self._model(group)
        self._alike(where)
        if partial := unfinished(self.folder):
            what = f"{counted(len(partial), 'file')} not downloaded to the end"
            self.report.add(Kind.NOTE, where, "", what, "`ollama pull` goes on with them")
        if not self.draft.models:
            self.report.add(Kind.ERROR, where, "", "no model in it can be carried over")
            return converted.empty(self.report)
        self.draft.head = [f"Made from Ollama's models in {self.folder} by `reconcile import ollama`."]
        self.draft.defaults = parameters.for_all(self.environ)
        self.draft.defaults |= {key: dict(value) for key, value in PATIENCE.items()}
        self.report.add(Kind.NOTE, where, "", PATIENT, PATIENT_HOW)
        self.report.add(Kind.NOTE, where, "", _API, "base URL: http://127.0.0.1:8080/v1")
        return self._settled(where)

    def _model(self, group: list[Tag]) -> None:
        tag = group[0]
        if (why := _elsewhere(tag)) is not None:
            self._say(tag, *why)
        elif self.engine == "ollama":
            self._kept(group)
        else:
            self._served(group)

    def _alike(self, where: Mark) -> None:
        """Note what holds for several models, once."""
        if self.templated:
            which = ", ".join(self.templated)
            what = f"{which}: the template in the GGUF file writes conversations, not Ollama's"
            self.report.add(
                Kind.DIFFERS, where, "", what, "args: [--chat-template, NAME], where answers look odd"
            )
        if self.shorter:
            tokens = parameters.CONTEXT
            what = f"{tokens} tokens of context, as Ollama gives where memory is short, for models that can do more: "
            advice = "context.max_tokens says how many; `reconcile budget` what they take"
            self.report.add(Kind.NOTE, where, "", what + ", ".join(self.shorter), advice)

    # -- by llama.cpp ----------------------------------------------------------------------------------------------

    def _served(self, group: list[Tag]) -> None:
        """Make a model of llama.cpp of the GGUF file behind some names."""
        tag = group[0]
        found = self._found(tag)
        if found is None:
            return
        weights, model = found
        stored = tag.stored
        assert stored is not None, "it was found"
        draft = self._draft(group)
        draft.inside.append(_about(model, weights))
        draft.keys["weights"] = str(stored.model)
        self._files(tag, draft, model)
        self._texts(tag, draft, model, weights)
        self._context(tag, draft, model)
        lost = parameters.put(draft, stored.parameters or {})
        if lost.parameters:
            listed = ", ".join(f"{name} {value}" for name, value in lost.parameters.items())
            what = f"{shown(listed)} of its Modelfile: not set"
            self._say(tag, Kind.LOST, what, "clients send it with their requests")
        self.draft.models.append(draft)

    def _found(self, tag: Tag) -> tuple[Weights, Model] | None:
        """Return the weights and what they are, or None after noting why they are no model for llama.cpp."""
        path = tag.stored.model if tag.stored is not None else None
        if path is None:
            what = (
                f"its weights are no GGUF file ({tag.config.get('model_format', 'another format')}): left out"
            )
            self._say(tag, Kind.LOST, what, _KEEP)
            return None
        try:
            weights = find_weights(path)
        except WeightsError as error:
            self._say(tag, Kind.LOST, f"left out: {error}", f"ollama pull {tag.name}")
            return None
        found = judged(path, weights)
        if isinstance(found, Model):
            return weights, found
        why = found.why if isinstance(found, LeftOut) else "a projector, not a model"
        self._say(tag, Kind.LOST, f"left out: {why}", _KEEP)
        return None

    def _files(self, tag: Tag, draft: ModelDraft, model: Model) -> None:
        stored = tag.stored
        assert stored is not None, "it was found"
        role = model.role
        if role is Role.COMPLETION and "template" in tag.texts:
            role = Role.CHAT
        if stored.projectors:
            draft.keys["projector"] = str(stored.projectors[0])
            role = Role.VISION
        if stored.adapters:
            draft.keys["adapters"] = [{"path": str(path)} for path in stored.adapters]
        if role is not Role.CHAT:
            draft.keys["role"] = role.value

    def _texts(self, tag: Tag, draft: ModelDraft, model: Model, weights: Weights) -> None:
        """Say what becomes of template, system prompt and the rest."""
        if text := tag.texts.get("system"):
            line = " ".join(text.split())
            draft.inside += hints.kept([f"system: {line[:_SHOWN]}{'...' if len(line) > _SHOWN else ''}"])
            what = "its system prompt is kept as a comment, and put before no conversation"
            self._say(tag, Kind.LOST, what, "set it in your client")
        if "messages" in tag.texts:
            self._say(tag, Kind.LOST, "the messages in its Modelfile are put before no conversation")
        keys = weights.header.keys
        if "template" in tag.texts and model.role in (Role.CHAT, Role.COMPLETION):
            if "tokenizer.chat_template" in keys:
                self.templated.append(tag.name)
            else:
                what = "Ollama's template is in a language of its own, and there is none in the GGUF file"
                self._say(
                    tag, Kind.TODO, what, "args: [--chat-template, NAME] names one that llama.cpp knows"
                )
        if any(".vision." in key for key in keys) and "projector" not in draft.keys:
            what = "its eyes are in the same file, in Ollama's own form: llama.cpp reads the text part alone, if at all"
            self._say(tag, Kind.LOST, what, f"fetch its GGUF and mmproj from another place, or {_KEEP}")

    # -- both ------------------------------------------------------------------------------------------------------

    def _kept(self, group: list[Tag]) -> None:
        """Make a model of Ollama's own server."""
        tag = group[0]
        draft = self._draft(group)
        draft.keys |= {"engine": "ollama", "weights": str(tag.manifest)}
        path = tag.stored.model if tag.stored is not None else None
        try:
            weights = find_weights(path) if path is not None else None
        except WeightsError as error:
            self._say(tag, Kind.LOST, f"left out: {error}", f"ollama pull {tag.name}")
            return
        found = judged(path, weights) if path is not None and weights is not None else None
        if isinstance(found, Model) and weights is not None:
            draft.inside.append(_about(found, weights))
            if found.role is Role.EMBEDDING:
                draft.keys["role"] = found.role.value
            elif tag.stored is not None and tag.stored.projectors:
                draft.keys["role"] = Role.VISION.value
            self._context(tag, draft, found)
        elif found is None:
            what = "its weights are no GGUF file, so its size is not known"
            self._say(tag, Kind.TODO, what, "write memory: {steady: SIZE}")
        self.draft.models.append(draft)

    def _draft(self, group: list[Tag]) -> ModelDraft:
        name, *aliases = names(group)
        draft = ModelDraft(name)
        if aliases:
            draft.keys["aliases"] = aliases
        return draft

    def _context(self, tag: Tag, draft: ModelDraft, model: Model) -> None:
        own = model.length
        stated = tag.stored.context_tokens if tag.stored is not None else None
        tokens, who = parameters.context(stated, self.environ, own)
        draft.keys["context"] = {"max_tokens": tokens}
        if not who and own is not None and own > tokens:
            self.shorter.append(f"{tag.name} ({own})")

    def _say(self, tag: Tag, kind: Kind, what: str, advice: str = "") -> None:
        mark = Mark(SourceFile(files.shown(tag.manifest), tag.manifest.parent), 0, 0)
        self.report.add(kind, mark, tag.name, what, advice)

    def _settled(self, where: Mark) -> Converted:
        try:
            text, applied = converted.settle(
                self.draft, self.report, self.folder, self.environ, self._leave_out
            )
        except ManifestError as error:
            return Converted("", self.report.sorted(), refused=error.diagnostics)
        self._startable(applied, where)
        return Converted(text, self.report.sorted(), tuple(draft.name for draft in self.draft.models))

    def _leave_out(self, name: str, why: str) -> bool:
        """Take a model out that no manifest can have, for example for its name; tell whether others are left."""
        self.draft.models = [draft for draft in self.draft.models if draft.name != name]
        where = Mark(SourceFile(str(self.folder), self.folder), 0, 0)
        self.report.add(Kind.LOST, where, name, f"left out: {why}")
        return bool(self.draft.models)

    def _startable(self, applied: Applied, where: Mark) -> None:
        """Note what could not be started here as things are: each reason once."""
        reasons: dict[str, list[str]] = {}
        for spec in applied.manifest.models:
            found = examine(applied.launches[spec.name])
            if found.reason is Reason.NOT_STARTABLE:
                reasons.setdefault(found.message, []).append(spec.name)
        for message, models in sorted(reasons.items()):
            self.report.add(Kind.TODO, where, ", ".join(models), f"cannot be started here yet: {message}")


def _elsewhere(tag: Tag) -> tuple[Kind, str, str] | None:
    """Return why nothing can be made of a name: it is damaged, not whole, or runs in Ollama's cloud."""
    if tag.remote:
        where = tag.config.get("remote_host") or "Ollama's cloud"
        return Kind.LOST, f"it runs at {where}, not on this machine: left out", "ask it through Ollama"
    if tag.problem:
        return Kind.LOST, f"left out: {tag.problem}", ""
    return None


def _about(model: Model, weights: Weights) -> str:
    """Return what its file says of a model, for a comment."""
    label = weights.header.keys.get("general.size_label")
    facts = [
        str(weights.header.keys.get("general.architecture")),
        label if isinstance(label, str) else "",
        size(weights.size),
        f"{model.length} tokens at most" if model.length else "",
    ]
    return ", ".join(filter(None, facts))
