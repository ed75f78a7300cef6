"""Whether a request fits its model's context, and what becomes of it if it does not.

Cheap first: most requests are proved to fit by the length of their body; the engine's tokenizer is asked of the rest,
once the model is there.
"""

from dataclasses import dataclass, field
from typing import Final

from reconciler.gateway.call import Call, Headers
from reconciler.gateway.context import estimate
from reconciler.gateway.context.budget import Budget, answer_tokens
from reconciler.gateway.context.media import holds, may_hold_media
from reconciler.gateway.context.overflow import Counter, Cut, Tally, cut, first_cut, room
from reconciler.gateway.context.refusal import AT_LEAST, ESTIMATED, too_long
from reconciler.gateway.context.summary import Summaries, Wish, chain
from reconciler.gateway.context.text import MESSAGES, PROMPTED, TEXTUAL, extent_of
from reconciler.gateway.context.turns import Talk, talk_of
from reconciler.manifest.applied import Overflow

CONTEXT_HEADER: Final = b"x-reconciler-context"
ESTIMATE_HEADER: Final = b"x-reconciler-estimate"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits, and what to tell the client of what was done for that."""

    call: Call
    headers: Headers = field(default_factory=list)
    #: Not yet: give the lease back, have this summary made, and ask again.
    wish: Wish | None = None


def early(call: Call, budget: Budget | None) -> bool:
    """Return whether a request is proved to fit, before any model is asked; False = `fit` must see it.

    Raises `ApiError` (400) for one that can never fit, so that nothing is loaded for it.
    """
    if budget is None or call.path not in PROMPTED or not call.is_json:
        return True
    document = call.document
    answer = answer_tokens(document)
    left = budget.tokens - max(answer, 1)
    if left <= 0:
        guess = estimate.estimated_tokens(call.path, document)
        raise too_long(call.path, budget.tokens, guess, answer, ESTIMATED)
    size, media = len(call.body), may_hold_media(call.body)
    template = estimate.template_tokens(call.path, document, budget.tokens)
    if estimate.body_bound(size, template) <= left and not media:
        return True
    if _worth_a_walk(call, left, media) and estimate.upper(extent_of(call.path, document), template) <= left:
        return True
    least = _least(call, budget) if _may_be_above(call, left) else 0
    if least > left:
        guess = estimate.estimated_tokens(call.path, document)
        raise too_long(call.path, budget.tokens, least, answer, AT_LEAST, likely=guess)
    return False


async def fit(
    call: Call,
    budget: Budget | None,
    count: Counter,
    *,
    summaries: Summaries | None = None,
    failed: str | None = None,
) -> Fitted:
    """Return the request as it fits, counted by the engine's own tokenizer: call it while its lease is held.

    With `overflow: summarize` the answer may be a `wish`: the lease must be given back before `summaries.make` is
    awaited, and then `fit` is called again, with what `make` returned as `failed` ("" = the summary is there).
    Raises `ApiError` (400) for a request that does not fit.
    """
    if budget is None or early(call, budget):
        return Fitted(call)
    tally = Tally(count, media=may_hold_media(call.body))
    aim, most = room(budget, call.document)
    shorten = budget.overflow is not Overflow.REJECT
    tokens = None
    if not (shorten and _surely_above(call, most)):  # else a tokenizer would take seconds to say so
        tokens = await tally(call.path, call.document)
        if tokens <= most:
            return Fitted(call)
    guess = estimate.estimated_tokens(call.path, call.document)
    tokens = guess if tokens is None else tokens
    talk = talk_of(call.path, call.document) if shorten else None
    answer = answer_tokens(call.document)
    if talk is None or talk.most == 0:
        raise too_long(call.path, budget.tokens, tokens, answer, tally.how, _why_whole(budget, talk))
    state = _State(call, budget, tally, talk, tokens, tokens / max(1, talk.size(0)), aim)
    if budget.overflow is Overflow.SUMMARIZE:
        if summaries is not None and budget.summarizer is not None:
            return await _summarised(state, summaries, budget.summarizer, failed)
        failed = failed or "no summarizer"
    return await _trimmed(state, failed)


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of a request that is too long."""

    call: Call
    budget: Budget
    tally: Tally
    talk: Talk
    tokens: int
    #: Tokens for each one that the plain estimate says.
    ratio: float
    #: Prompt tokens to get down to.
    aim: int


async def _trimmed(state: _State, failed: str | None) -> Fitted:
    made = await cut(state.talk, state.budget, state.tally, ratio=state.ratio)
    gone = len(state.talk.oldest(made.dropped))
    dropped = max(0, state.tokens - made.tokens)
    said = f"trimmed {gone} of {len(state.talk.items)} messages, {dropped} tokens dropped"
    return _made(state, made, said + _no("summary", failed))


async def _summarised(state: _State, summaries: Summaries, summarizer: str, failed: str | None) -> Fitted:
    """Use the newest summary there is; if it leaves too much, wish for one of more turns, once."""
    keys = await chain(summarizer, state.talk)
    known, note = summaries.newest(keys)
    asked_before = failed is not None
    enough = first_cut(state.talk, state.aim, state.ratio, known) == known
    if note is not None and (enough or asked_before):
        made = await cut(state.talk, state.budget, state.tally, ratio=state.ratio, least=known, note=note)
        if made.document is not None and (made.dropped == known or asked_before):
            gone = len(state.talk.oldest(known))
            said = f"summarized {gone} of {len(state.talk.items)} messages"
            if made.dropped > known:
                said += f", trimmed {len(state.talk.oldest(made.dropped)) - gone} more"
            return _made(
                state,
                made,
                f"{said}, {max(0, state.tokens - made.tokens)} tokens dropped" + _no("newer summary", failed),
            )
    if asked_before:
        return await _trimmed(state, failed)
    # Half of the budget, so that the next turns of the conversation find room behind the same summary.
    dropped = first_cut(state.talk, min(state.aim, state.budget.tokens // 2), state.ratio, known + 1)
    if dropped <= known:
        return await _trimmed(state, "nothing more to summarize")
    before = len(state.talk.oldest(known))
    items = tuple(state.talk.oldest(dropped)[before:])
    wish = Wish(summarizer, keys[dropped], items, note, state.budget.tokens, state.ratio)
    return Fitted(state.call, wish=wish)


def _no(what: str, failed: str | None) -> str:
    return f", no {what}: {failed}" if failed else ""


def _made(state: _State, made: Cut, said: str) -> Fitted:
    if made.document is None:
        answer = answer_tokens(state.call.document)
        hint = "The last turn and the instructions alone are too long; nothing else is left to leave out."
        raise too_long(state.call.path, state.budget.tokens, made.tokens, answer, state.tally.how, hint)
    header = said.encode("ascii", "replace").replace(b"\n", b" ")
    return Fitted(state.call.with_document(made.document), [(CONTEXT_HEADER, header)])


async def count_answer(call: Call, count: Counter | None) -> tuple[dict[str, int], Headers]:
    """Return the answer to `/v1/messages/count_tokens`: by the tokenizer where `count` is given and can tell.

    Else the plain estimate, with a header that says so: it is on the high side for most chats, but no bound.
    """
    if count is not None:
        tally = Tally(count, media=may_hold_media(call.body))
        tokens = await tally(MESSAGES, call.document)
        if tally.exact:
            return {"input_tokens": tokens}, []
    tokens = estimate.estimated_tokens(MESSAGES, call.document)
    return {"input_tokens": tokens}, [(ESTIMATE_HEADER, b"estimate")]


def _least(call: Call, budget: Budget) -> int:
    """Return the tokens a prompt has at least, after all that may be left out of it."""
    talk = talk_of(call.path, call.document) if budget.overflow is not Overflow.REJECT else None
    document = call.document if talk is None else talk.without(talk.most)
    return estimate.lower(call.path, document)


def _may_be_above(call: Call, tokens: int) -> bool:
    """Return whether the lower estimate may be above `tokens`: seen without a walk, but where ids may be given."""
    return call.path in TEXTUAL or estimate.least_of_body(len(call.body)) > tokens


def _surely_above(call: Call, tokens: int) -> bool:
    return _may_be_above(call, tokens) and estimate.lower(call.path, call.document) > tokens


def _worth_a_walk(call: Call, left: int, media: bool) -> bool:
    """Return whether the prompt may be that much shorter than the body, which was too long to prove anything."""
    if media or call.path in TEXTUAL or len(call.body) <= 2 * left:
        return True
    # JSON may take six bytes (an escape) for what is one in UTF-8.
    return len(call.body) <= 6 * left and holds(call.body, b"\\u")


def _why_whole(budget: Budget, talk: Talk | None) -> str:
    if budget.overflow is Overflow.REJECT:
        return ""
    if talk is None:
        return "Only conversations can be shortened by leaving out their oldest turns."
    return "There is only one turn, which is never left out."
