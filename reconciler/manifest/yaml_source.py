"""From YAML text to a tree. Reads the parser's events itself, because no ready-made loader names every fault.

Refused here: syntax errors, every duplicate key, unknown tags, a second document, alias bombs, bad merge keys.
"""

from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import Problems
from reconciler.manifest.tree import Entry, Map, Mark, Node, Scalar, Seq, SourceFile
from reconciler.manifest.yaml_text import invisible_in

#: Values a document may have once aliases are followed. A thousand models have about 20,000.
EXPANDED_LIMIT: Final = 500_000
DEPTH_LIMIT: Final = 50

_STR_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_SEQ_TAGS = frozenset({"!", "tag:yaml.org,2002:seq"})
_MAP_TAGS = frozenset({"!", "tag:yaml.org,2002:map"})

Opening = ScalarEvent | CollectionStartEvent | AliasEvent


class _Refused(Exception):
    """The document cannot be read further; the reason has been noted."""


def parse(text: str, file: SourceFile, problems: Problems) -> Node | None:
    """Return the tree of the one document in `text`, or None if there is none or it cannot be read (noted)."""
    composer = _Composer(file, problems)
    try:
        return composer.document(YAML(typ="safe", pure=True).parse(text))
    except MarkedYAMLError as error:
        _note_syntax(error, file, problems)
    except YAMLError as error:
        problems.add_file(file, "yaml-syntax", str(error).splitlines()[0])
    except _Refused:
        pass
    return None


class _Composer:
    def __init__(self, file: SourceFile, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self.anchors: dict[str, Node] = {}
        #: Anchors of collections that are still being read: an alias to one of them would never end.
        self.open: set[str] = set()

    def document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    hint = "put the models of both under one `models:`, or into two files of one directory"
                    self.problems.add(
                        self.mark(event.start_mark),
                        "two-documents",
                        "a second document begins here; one is expected",
                        hint,
                    )
                    return root
                if event.version not in (None, (1, 2)):
                    self.problems.add(
                        self.mark(event.start_mark),
                        "yaml-version",
                        "manifests are YAML 1.2",
                        "delete the %YAML line",
                    )
            elif isinstance(event, ScalarEvent | CollectionStartEvent | AliasEvent):
                root = self.node(event, events, 0)
        return root

    def mark(self, at: StringMark) -> Mark:
        return Mark(self.file, at.line + 1, at.column + 1)

    def node(self, event: Opening, events: Iterator[Any], depth: int) -> Node:
        if isinstance(event, AliasEvent):
            return self.alias(event)
        anchor = event.anchor
        if isinstance(event, ScalarEvent):
            node: Node = self.scalar(event)
        else:
            if depth >= DEPTH_LIMIT:
                self.problems.add(
                    self.mark(event.start_mark), "too-deep", f"nested deeper than {DEPTH_LIMIT} levels"
                )
                raise _Refused
            if anchor:
                self.open.add(anchor)
            node = (self.mapping if isinstance(event, MappingStartEvent) else self.sequence)(
                event, events, depth
            )
            self.open.discard(anchor)
        if anchor:
            self.anchors[anchor] = node
        return node

    def alias(self, event: AliasEvent) -> Node:
        mark = self.mark(event.start_mark)
        name = event.anchor
        if name in self.open:
            self.problems.add(mark, "recursive-alias", f"*{name} refers to the value it is part of")
            raise _Refused
        if name not in self.anchors:
            self.problems.add(
                mark, "unknown-alias", f"*{name} has no &{name} before it", _quote_hint(f"*{name}")
            )
            return Scalar("", False, mark, (mark.line, mark.col))
        return self.anchors[name]

    def scalar(self, event: ScalarEvent) -> Scalar:
        self.check_tag(event, _STR_TAGS)
        mark = self.mark(event.start_mark)
        plain = event.style is None and event.tag is None
        if plain and not event.value.isascii() and (found := invisible_in(event.value)):
            self.problems.add(
                Mark(self.file, mark.line, mark.col + found[0]),
                "invisible-character",
                f"{found[1]} in an unquoted value",
                "delete it, or put the value in quotes",
            )
        return Scalar(event.value, plain, mark, (event.end_mark.line + 1, event.end_mark.column + 1))

    def sequence(self, start: CollectionStartEvent, events: Iterator[Any], depth: int) -> Seq:
        self.check_tag(start, _SEQ_TAGS)
        seq = Seq(self.mark(start.start_mark))
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            item = self.node(event, events, depth + 1)
            seq.items.append(item)
            self.weigh(seq, item)
        return seq

    def mapping(self, start: CollectionStartEvent, events: Iterator[Any], depth: int) -> Map:
        self.check_tag(start, _MAP_TAGS)
        mapping = Map(self.mark(start.start_mark))
        merges = 0
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            key = self.node(event, events, depth + 1)
            value = self.node(next(events), events, depth + 1)
            if not isinstance(key, Scalar):
                self.problems.add(key.mark, "bad-key", "a key must be text, not a list or a mapping")
            elif key.value == "<<" and key.plain:
                merges += 1
                if merges == 2:
                    self.problems.add(
                        key.mark, "duplicate-key", '"<<" is here twice', "write one list: <<: [*a, *b]"
                    )
                self.merge(mapping, value)
            else:
                self.put(mapping, key, value)
        return mapping

    def put(self, mapping: Map, key: Scalar, value: Node) -> None:
        known = mapping.items.get(key.value)
        if known is not None and not known.merged:
            where = f"line {known.key.mark.line}, column {known.key.mark.col}"
            self.problems.add(
                key.mark,
                "duplicate-key",
                f"{quoted(key.value)} is here twice; first at {where}",
                "keep one of the two",
            )
            return
        if isinstance(value, Scalar) and value.plain and not value.value:
            # Nothing is written there; the parser's place for it is wherever the next thing begins.
            value.mark = key.mark
        mapping.items[key.value] = Entry(key, value)
        self.weigh(mapping, value)

    def merge(self, mapping: Map, value: Node) -> None:
        """Apply `<<`: a key written here wins over a merged one, and of several merged mappings the first wins."""
        sources = value.items if isinstance(value, Seq) else [value]
        for source in sources:
            if not isinstance(source, Map):
                self.problems.add(source.mark, "bad-merge", "`<<` takes a mapping or a list of mappings")
                continue
            for name, entry in source.items.items():
                if name not in mapping.items:
                    mapping.items[name] = Entry(entry.key, entry.value, merged=True)
                    self.weigh(mapping, entry.value)

    def weigh(self, parent: Map | Seq, child: Node) -> None:
        """Count values as if aliases were copies, and stop before anybody makes the copies."""
        parent.weight += child.weight
        if parent.weight > EXPANDED_LIMIT:
            self.problems.add(
                parent.mark,
                "alias-bomb",
                f"with its aliases followed this has more than {EXPANDED_LIMIT:,} values",
                "use fewer aliases of aliases",
            )
            raise _Refused

    def check_tag(self, event: ScalarEvent | CollectionStartEvent, allowed: frozenset[str]) -> None:
        tag = event.tag
        if tag is None or str(tag) in allowed:
            return
        shown = str(tag).replace("tag:yaml.org,2002:", "!!")
        self.problems.add(
            self.mark(event.start_mark),
            "unknown-tag",
            f"the tag {shown} is not known here",
            "write the value without a tag; ${env:NAME} takes a value from the environment",
        )


def _note_syntax(error: MarkedYAMLError, file: SourceFile, problems: Problems) -> None:
    at = error.problem_mark or error.context_mark
    if at is None:
        problems.add_file(file, "yaml-syntax", str(error.problem))
        return
    if error.context_mark is not None and "end of stream" in str(error.problem):
        at = error.context_mark
    mark = Mark(file, at.line + 1, at.column + 1)
    line = file.line(mark.line)
    if line[at.column : at.column + 1] == "\t":
        where = "as indentation" if not line[: at.column].strip() else "between a key and its value"
        problems.add(mark, "tab", f"a tab {where}", "use spaces")
        return
    # A blank that is none joins lines, so the parser may stumble a little later than where it stands.
    for number in range(mark.line, max(0, mark.line - 3), -1):
        if found := invisible_in(file.line(number)):
            problems.add(
                Mark(file, number, found[0] + 1), "invisible-character", found[1], "use an ordinary space"
            )
            return
    context = f" ({error.context})" if error.context else ""
    problems.add(mark, "yaml-syntax", f"{error.problem}{context}", _syntax_hint(str(error.problem)))


def _syntax_hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return 'put a value with ": " in it into quotes; or write `command: |` and the text on the next line'
    if "expected the node content" in problem or "cannot start any token" in problem:
        return "put a value that begins with a special character into quotes"
    return ""


def _quote_hint(text: str) -> str:
    return f'a text that begins with * needs quotes: "{text}"'
