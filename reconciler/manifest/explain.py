"""From the validator's errors to diagnostics: at the right place, in the user's terms, with what to write instead."""

from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reconciler.manifest.data import shown_or_hidden
from reconciler.manifest.diagnostics import looks_secret
from reconciler.manifest.document import Document
from reconciler.manifest.problems import Problems
from reconciler.manifest.scalars import kind
from reconciler.manifest.sections import model_only, unknown_key
from reconciler.manifest.tree import KEY_SETTINGS, Map, Mark, Node, Scalar, Seq, find

Path = tuple[str | int, ...]


def explain(error: ValidationError, root: Map, problems: Problems, shape: type[BaseModel] = Document) -> None:
    """Note every error of `error`; `root` is the whole file as written, `shape` what it should be."""
    for detail in error.errors(include_input=False, include_url=False):
        _explain_one(detail, root, problems, shape)


def locate(root: Map, path: Path) -> tuple[Node, Scalar | None, bool]:
    """Return the node at `path`, its key, and whether all of the path is there.

    What a model does not state itself is looked for in `defaults`.
    """
    node, key, depth = find(root, path)
    if depth < len(path) and path[:1] == ("models",) and len(path) > 2 and "defaults" in root.items:
        other, other_key, other_depth = find(root.items["defaults"].value, path[2:])
        if other_depth == len(path) - 2:
            return other, other_key, True
    return node, key, depth == len(path)


def place(root: Map, path: Path) -> Mark:
    """Return the best place for a remark about `path`: its value, or the nearest key above it."""
    node, key, whole = locate(root, path)
    return key.mark if key and (not whole or isinstance(node, Map)) else node.mark


def _explain_one(detail: ErrorDetails, root: Map, problems: Problems, shape: type[BaseModel]) -> None:
    path: Path = detail["loc"]
    if path[:2] == ("gateway", "api_keys"):
        path = tuple(p for p in path if not str(p).startswith("="))
    context: dict[str, Any] = detail.get("ctx", {})
    kind_of = detail["type"]
    if path[-1:] == ("[key]",):
        _, key, _ = locate(root, path[:-1])
        mark = key.mark if key else place(root, path[:-1])
        if "message" in context:
            problems.add(mark, kind_of, context["message"], context["hint"])
        else:
            problems.add(mark, "env-name", "not the name of a variable")
        return
    if _from_defaults(root, path):
        return
    node, key, whole = locate(root, path)
    if kind_of == "extra_forbidden":
        mark = key.mark if key else node.mark
        if path[:1] == ("defaults",) and len(path) == 2 and model_only(str(path[1])):
            hint = f"write it at each model: models.NAME.{path[1]}"
            problems.add(mark, "misplaced-key", "this key cannot be a default", hint)
        else:
            problems.add(mark, *unknown_key(path, shape))
    elif kind_of == "missing":
        if not whole:
            problems.add(
                key.mark if key else node.mark,
                "missing-key",
                f'the key "{path[-1]}" is missing',
                _example(path),
            )
    elif "message" in context:
        problems.add(node.mark, kind_of, context["message"], context["hint"])
    else:
        code, message, hint = _type_error(kind_of, context, node, _secret(root, path))
        problems.add(node.mark, code, message, hint)


def _from_defaults(root: Map, path: Path) -> bool:
    """Tell whether a model only inherits what is wrong: it is reported once, at `defaults` itself."""
    return path[:1] == ("models",) and find(root, path)[2] < len(path) and locate(root, path)[2]


def _type_error(kind_of: str, context: dict[str, Any], node: Node, secret: bool) -> tuple[str, str, str]:
    """Return code, message and hint for an error that the validator found by itself."""
    what = _what(node, secret)
    match kind_of:
        case "string_type" if isinstance(node, Scalar) and node.plain:
            hint = "quote it" if secret else f'quote it: "{node.value}"'
            return "quote-it", f"{what} is {kind(node.value)} in YAML, not text", hint
        case "string_type":
            return "wrong-type", f"expected a text, not {what}", ""
        case "int_type" | "int_from_float":
            return "wrong-type", f"expected a whole number, not {what}", _number_hint(node)
        case "model_type" | "dict_type":
            hint = "write `NAME: {...}` for each model, without dashes" if isinstance(node, Seq) else ""
            return "wrong-type", f"expected a mapping, not {what}", hint
        case "tuple_type":
            return (
                "wrong-type",
                f"expected a list, not {what}",
                "write [one, two], or one item a line after a dash",
            )
        case "greater_than_equal" | "less_than_equal":
            return "range", f"{what} is out of range", _range_hint(context)
        case "too_short" | "string_too_short":
            return "empty-value", "there is nothing in it", "give a value, or delete the key"
        case "string_pattern_mismatch":
            return "pattern", f"{what} does not match {context['pattern']}", ""
        case "literal_error":
            expected = context["expected"].replace("'", "")
            return "wrong-value", f"{what} is not known here", f"write {expected}"
        case _:
            return _rare_error(kind_of, what)


def _rare_error(kind_of: str, what: str) -> tuple[str, str, str]:
    match kind_of:
        case "bool_type":
            return "wrong-type", f"expected true or false, not {what}", ""
        case "too_long":
            return "range", f"{what} has more in it than one", "keep one of them"
        case _:
            return "wrong-type", f"{what} is not allowed here ({kind_of})", ""


def _what(node: Node, secret: bool) -> str:
    if isinstance(node, Map):
        return "a mapping"
    if isinstance(node, Seq):
        return "a list"
    return shown_or_hidden(node, secret)


def _range_hint(context: dict[str, Any]) -> str:
    return f"write {context['ge']} or more" if "ge" in context else f"write {context['le']} or less"


def _number_hint(node: Node) -> str:
    if not isinstance(node, Scalar):
        return ""
    text = node.value
    if not node.plain and text.isascii() and text.isdigit():
        return "write it without quotes"
    if text.startswith("0") and text.isascii() and text.isdigit():
        return f"write {text.lstrip('0') or '0'}: a leading zero is octal for some readers"
    return "write it in plain decimal digits"


def _secret(root: Map, path: Path) -> bool:
    """Tell whether the value at `path` must not be repeated."""
    if "env" in path or "api_keys" in path:
        return path[:1] != ("gateway",) or not KEY_SETTINGS & set(path)
    if isinstance(path[-1], int) and path[-1] > 0:
        before, _, whole = locate(root, (*path[:-1], path[-1] - 1))
        return whole and isinstance(before, Scalar) and looks_secret(before.value)
    return False


def _example(path: Path) -> str:
    examples = {
        "apiVersion": "begin the file with `apiVersion: reconciler/v1`",
        "models": "list the models under `models:`; `models: {}` stands for none",
        "file": "write {file: keys.txt}",
        "key": "write {key: KEY, name: NAME, scopes: [infer]}",
        "use": "write use: MODEL, or use: [MODEL, ANOTHER]",
    }
    return examples.get(str(path[-1]), "")
