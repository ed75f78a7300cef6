"""The paths of the data API: one table, looked up before anything else is done with a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from reconciler.core.launch import Role
from reconciler.engines import registry
from reconciler.gateway.errors import ApiError
from reconciler.manifest.applied import GENERATING, Applied


@dataclass(frozen=True, slots=True)
class Path:
    """One thing a client can ask of a model."""

    #: The usual spelling, by which the rest of the gateway knows it.
    name: str
    #: The roles of models it is for; empty = every model may be asked.
    roles: frozenset[Role] = frozenset()
    #: Other spellings that mean the same.
    also: tuple[str, ...] = ()
    #: Whether it may be a form with files instead of JSON.
    form: bool = False
    #: Whether the model may be in the query instead of the body.
    query: bool = False
    #: The path whose being served says that this one is; None = its own.
    like: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every path that leads here, the usual one first."""
        return (self.name, *self.also)

    @property
    def streams(self) -> bool:
        """Whether its answers may be event streams, so that a comment may come before them."""
        return self.roles == GENERATING

    @property
    def anthropic(self) -> bool:
        """Whether its clients expect answers in the shapes of Anthropic's API."""
        return self.name.startswith("/v1/messages")


COUNT_TOKENS: Final = "/v1/messages/count_tokens"
MESSAGES: Final = "/v1/messages"
CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"

PATHS: Final[tuple[Path, ...]] = (
    Path(CHAT, GENERATING),
    Path(COMPLETIONS, GENERATING),
    Path("/v1/responses", GENERATING),
    Path("/v1/embeddings", frozenset({Role.EMBEDDING})),
    Path("/v1/rerank", frozenset({Role.RERANK}), also=("/rerank", "/v1/reranking", "/reranking")),
    Path("/v1/audio/transcriptions", frozenset({Role.ASR}), form=True),
    Path("/v1/audio/translations", frozenset({Role.ASR}), form=True),
    Path("/v1/audio/speech", frozenset({Role.TTS})),
    Path("/v1/images/generations", frozenset({Role.IMAGE})),
    Path("/v1/images/edits", frozenset({Role.IMAGE}), form=True),
    Path("/v1/images/variations", frozenset({Role.IMAGE}), form=True),
    Path("/classify", frozenset({Role.CLASSIFY}), also=("/v1/classify",)),
    # Whatever a class of the user's does that none of the others is.
    Path("/infer"),
    Path(MESSAGES, GENERATING),
    Path(COUNT_TOKENS, GENERATING),
    # What llama.cpp's own clients use.
    Path("/completion", GENERATING, query=True, like=COMPLETIONS),
    Path("/infill", GENERATING, query=True, like=COMPLETIONS),
    Path("/apply-template", GENERATING, query=True, like=CHAT),
    Path("/tokenize", query=True),
    Path("/detokenize", query=True),
)

#: Every spelling -> what it means.
SURFACE: Final[Mapping[str, Path]] = {spelling: path for path in PATHS for spelling in path.spellings}


def serves_any(served: frozenset[str] | None, path: Path) -> bool:
    """Say whether an engine that serves these paths answers this one; one that cannot tell is believed to."""
    if served is None or not path.roles:
        return True
    return (path.like or path.name) in served or not served.isdisjoint(path.spellings)


def answers(served: frozenset[str] | None, path: Path) -> bool:
    """Say whether an engine answers a path itself or through the gateway, which translates Anthropic's."""
    return serves_any(served, path) or (path.anthropic and (served is None or CHAT in served))


def spelling_for(served: frozenset[str] | None, path: Path, came: str) -> str:
    """Return the path to ask the engine for: the client's spelling where the engine has it, else one it has."""
    if served is None or came in served or not path.also:
        return came
    return next((spelling for spelling in path.spellings if spelling in served), came)


def reachable(applied: Applied, model: str) -> bool:
    """Say whether any path of the data API reaches a model; one of which nobody can tell is believed to be reached."""
    launch = applied.launches.get(model)
    served = registry.get(launch.engine).serves(launch) if launch is not None else None
    return served is None or bool(served)


class Served:
    """What the models of the manifest in force answer; worked out once for each of their launches."""

    def __init__(self) -> None:
        self._applied: Applied | None = None
        self._by_model: dict[str, frozenset[str] | None] = {}
        #: Model and path that were found to go together.
        self._checked: set[tuple[str, str]] = set()

    def of(self, applied: Applied, model: str) -> frozenset[str] | None:
        """Return the paths a model's engine serves, or None if nobody can tell."""
        if applied is not self._applied:
            self._applied, self._by_model, self._checked = applied, {}, set()
        try:
            return self._by_model[model]
        except KeyError:
            launch = applied.launches.get(model)
            served = registry.get(launch.engine).serves(launch) if launch is not None else None
            self._by_model[model] = served
            return served

    def check(self, applied: Applied, model: str, path: Path, asked: str) -> frozenset[str] | None:
        """Return what `of` does; raise `ApiError` (400) if the model's engine does not answer the path.

        The message names those that do.
        """
        served = self.of(applied, model)
        if (model, path.name) in self._checked:
            return served
        if answers(served, path):
            self._checked.add((model, path.name))
            return served
        if served is not None and not served:
            text = f"{asked!r} answers no path of the data API, but its engine's own below /upstream/{quote(model)}/"
            raise ApiError("wrong_role", text)
        fitting = self.fitting(applied, path)
        role = applied.limits[model].role.value if model in applied.limits else "other"
        text = f"{asked!r} is a model for {role}; it does not answer {path.name}"
        text += f": ask {_listed(fitting)}" if fitting else ", and no model of the manifest does"
        raise ApiError("wrong_role", text)

    def fitting(self, applied: Applied, path: Path) -> list[str]:
        """Return the models of a role the path is for whose engines answer it, sorted."""
        return [
            model
            for model, limits in sorted(applied.limits.items())
            if limits.role in path.roles and answers(self.of(applied, model), path)
        ]


def _listed(names: Iterable[str], shown: int = 10) -> str:
    items = [repr(name) for name in names]
    more = f" or {len(items) - shown} more" if len(items) > shown else ""
    return " or ".join(items[:shown]) + more
