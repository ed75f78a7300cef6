"""Load a manifest: read, merge, validate, and either return the whole of it or say everything that is wrong."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Engine
from reconciler.manifest import build, git
from reconciler.manifest.applied import Applied, Source
from reconciler.manifest.checks import check_document, check_engine, too_large
from reconciler.manifest.data import Reader, with_split_command
from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.document import API_VERSION, Document
from reconciler.manifest.explain import explain, place
from reconciler.manifest.files import Content, read_content
from reconciler.manifest.keys import key_variables, read_keys
from reconciler.manifest.merge import merge_files
from reconciler.manifest.names import check_names, routes
from reconciler.manifest.overflow import unlimited
from reconciler.manifest.problems import Problems, nearest
from reconciler.manifest.references import check_references
from reconciler.manifest.tree import Entry, Map, Mark, Node, SourceFile
from reconciler.manifest.yaml_source import parse
from reconciler.manifest.yaml_text import decode


class Engines(Protocol):
    """The engines there are: `reconciler.engines.registry`, or a test's."""

    def names(self) -> tuple[str, ...]:
        """Return the values `engine:` may have, sorted."""
        ...

    def get(self, name: str) -> Engine:
        """Return the engine of that name; raises KeyError if there is none."""
        ...


def load_manifest(
    path: Path, *, rev: str | None = None, environ: Mapping[str, str], engines: Engines | None = None
) -> Applied:
    """Read and validate the manifest at `path`, a file or a directory of `*.yaml` files. Blocks: files and git.

    With `rev` the files are taken from that git revision; the work tree is not touched. `environ` is what
    `${env:NAME}` sees. Raises ManifestError with all that is wrong.
    """
    content = read_content(path) if rev is None else git.read_revision(path, rev)
    return apply_content(content, environ=environ, engines=engines)


def apply_content(content: Content, *, environ: Mapping[str, str], engines: Engines | None = None) -> Applied:
    """Validate a manifest that has been read. Blocks: it reads the file of API keys and asks git.

    Raises ManifestError.
    """
    engines = engines or _registry()
    problems = Problems()
    document, root, whole = _read(content, environ, engines, problems)
    complete = whole and not len(problems)
    launches = _launches(document, root, engines, problems)
    check_document(document, root, problems)
    known = routes({name: model.aliases for name, model in document.models.items()})
    if complete:  # else what is not there may stand where something could not be read
        check_references(document, known, _mute(launches, engines), root, problems)
    api_keys = read_keys(document.gateway, root, environ, problems)
    problems.raise_any()
    gateway = build.build_gateway(document, api_keys, key_variables(root))
    virtual = build.build_virtual(document, known)
    commit, dirty = git.describe(content)
    names = tuple(file.name for file in content.files)
    source = Source(content.path, names, commit, dirty, also_read=tuple(problems.also_read))
    return Applied(
        manifest=build.build_manifest(document, launches),
        launches=launches,
        routes=known,
        limits={name: build.build_limits(model, known) for name, model in sorted(document.models.items())},
        gateway=gateway,
        ports=document.machine.ports,
        digest=build.content_digest(document, content.files[0].directory, gateway, virtual),
        source=source,
        virtual=virtual,
        states=build.build_states(document),
        state_disk=document.machine.state_disk,
        on_exit=document.machine.on_exit,
        warnings=(*too_large(document), *unlimited(document, root)),
    )


def read_document(
    content: Content, *, environ: Mapping[str, str], engines: Engines | None = None
) -> tuple[Document, Map]:
    """Return what a manifest says, defaults filled in, and the tree that says where. Blocks. Raises ManifestError.

    What only the models together, or other files, could tell to be wrong is not looked for: see `apply_content`.
    """
    problems = Problems()
    document, root, _ = _read(content, environ, engines or _registry(), problems)
    return document, root


def _read(
    content: Content, environ: Mapping[str, str], engines: Engines, problems: Problems
) -> tuple[Document, Map, bool]:
    """Return document and tree, and whether every file could be read. Raises ManifestError if there is no document."""
    root, whole = _read_root(content, problems)
    document = _validate(root, environ, problems, whole, engines)
    if document is None:
        problems.raise_any()
        raise AssertionError("a document was refused without a reason")
    return document, root, whole


def _mute(launches: Mapping[str, LaunchSpec], engines: Engines) -> frozenset[str]:
    """Return the models whose engines answer no path of the data API."""
    known = {name: engine for name, spec in launches.items() if (engine := _engine(spec.engine, engines))}
    served = {name: engine.serves(launches[name]) for name, engine in known.items()}
    return frozenset(name for name, paths in served.items() if paths is not None and not paths)


def _engine(name: str, engines: Engines) -> Engine | None:
    try:
        return engines.get(name)
    except KeyError:
        return None


def _registry() -> Engines:
    """Return the program's engines; imported late, because they bring an HTTP client along."""
    from reconciler.engines import registry

    return registry


def _read_root(content: Content, problems: Problems) -> tuple[Map, bool]:
    """Return the merged tree of all files, and whether every file could be read and parsed."""
    if content.error or not content.files:
        file = SourceFile(content.path, Path(content.path))
        problems.add_file(file, "no-manifest", content.error, "give a file, or a directory with *.yaml files")
        return Map(Mark(file, 0, 0)), False
    roots: list[tuple[SourceFile, Node | None]] = []
    for each in content.files:
        file = SourceFile(each.name, each.directory)
        if each.error:
            problems.add_file(file, "unreadable", each.error)
        elif (text := decode(each.data, file, problems)) is not None:
            before = len(problems)
            node = parse(text, file, problems)
            if node is not None:
                problems.know(node)
            if node is not None or len(problems) == before:
                roots.append((file, node))
    if not roots:
        return Map(Mark(SourceFile(content.path, Path(content.path)), 0, 0)), False
    merged, whole = merge_files(roots, problems)
    return merged, whole and len(roots) == len(content.files)


def _validate(
    root: Map, environ: Mapping[str, str], problems: Problems, whole: bool, engines: Engines
) -> Document | None:
    """Return the document, or None if any key is invalid (noted, with what is wrong with the valid rest)."""
    reader = Reader(environ, problems)
    models = root.items.get("models")
    if models is not None and isinstance(models.value, Map):
        for name, entry in models.value.items.items():
            models.value.items[name] = Entry(entry.key, with_split_command(entry.value, problems))
    data: dict[str, Any] = reader.root(root)
    _apply_defaults(data)
    data["apiVersion"] = API_VERSION
    if not whole:
        data.setdefault("models", {})
    if models is not None and isinstance(models.value, Map):
        virtual = root.items["virtual"].value if "virtual" in root.items else None
        check_names(models.value, virtual if isinstance(virtual, Map) else None, data["models"], problems)
    try:
        return Document.model_validate(data)
    except ValidationError as error:
        explain(error, root, problems)
        _check_rest(error, data, root, problems, engines)
        return None


def _check_rest(
    error: ValidationError, data: dict[str, Any], root: Map, problems: Problems, engines: Engines
) -> None:
    """Note what else is wrong, of all models that are valid in themselves and of the engines of those that are not."""
    refused = {detail["loc"][:2] for detail in error.errors(include_input=False, include_url=False)}
    sections = {path[0] for path in refused if path} - {"models"}
    given = data.get("models")
    models = given if isinstance(given, dict) else {}
    lost = {name for name in models if ("models", name) in refused}
    for name in sorted(lost):
        engine = models[name].get("engine") if isinstance(models[name], dict) else None
        if isinstance(engine, str):
            _known_engine(name, engine, root, engines, problems)
    rest = {key: value for key, value in data.items() if key not in sections}
    rest["models"] = {name: model for name, model in models.items() if name not in lost}
    try:
        document = Document.model_validate(rest)
    except ValidationError:  # what is left out was needed by the rest: all of it has been noted
        return
    _launches(document, root, engines, problems)
    if not sections:  # else a default may stand where something else was written
        check_document(document, root, problems)


def _known_engine(name: str, engine: str, root: Map, engines: Engines, problems: Problems) -> bool:
    """Return whether there is such an engine; noted if not."""
    if _engine(engine, engines) is not None:
        return True
    known = engines.names()
    near = nearest(engine, known)
    hint = f"did you mean {near}?" if near else f"write one of {', '.join(known)}"
    message = f"there is no engine {quoted(engine)}"
    problems.add(place(root, ("models", name, "engine")), "engine", message, hint)
    return False


def _apply_defaults(data: dict[str, Any]) -> None:
    """Put the defaults under every model: a mapping key by key, anything else only where the model says nothing."""
    defaults, models = data.get("defaults"), data.get("models")
    if isinstance(defaults, dict) and isinstance(models, dict):
        for name, model in models.items():
            if isinstance(model, dict):
                models[name] = _under(model, defaults)


def _under(own: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    result = {**defaults, **own}
    for key in own.keys() & defaults.keys():
        if isinstance(own[key], dict) and isinstance(defaults[key], dict):
            result[key] = _under(own[key], defaults[key])
    return result


def _launches(document: Document, root: Map, engines: Engines, problems: Problems) -> dict[str, LaunchSpec]:
    """Return the launches by name, sorted; notes unknown engines and what the engines object to."""
    launches: dict[str, LaunchSpec] = {}
    for name, model in sorted(document.models.items()):
        key = place(root, ("models", name, "?"))
        launch = launches[name] = build.build_launch(name, model, key.file.directory)
        if _known_engine(name, model.engine, root, engines, problems):
            engine = engines.get(model.engine)
            launches[name] = check_engine(engine, launch, root, problems)
    return launches
