"""What is worth knowing of models and hinders nothing: one line for each sentence, whomever it is about."""

from collections.abc import Iterable

from reconciler.render.paint import one_line


def note_lines(notes: Iterable[tuple[str, Iterable[str]]], prefix: str = "") -> list[str]:
    """Return `chat, coder: SENTENCE` for notes by model, each sentence once, in the order of its first model.

    `prefix` stands before each name.

    >>> note_lines([("a", ["x", "y"]), ("b", ["y"])], "models.")
    ['models.a: x', 'models.a, models.b: y']
    """
    about: dict[str, list[str]] = {}
    for name, sentences in notes:
        for sentence in sentences:
            names = about.setdefault(one_line(sentence), [])
            if (full := prefix + name) not in names:
                names.append(full)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in about.items()]
