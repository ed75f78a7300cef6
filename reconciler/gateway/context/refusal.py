"""The error of a request that is too long, in the words that clients look for."""

from typing import Final

from reconciler.gateway.context.text import MESSAGES
from reconciler.gateway.errors import ApiError

CODE: Final = "context_length_exceeded"
#: Where a figure comes from.
COUNTED: Final = "counted by the model's tokenizer"
ESTIMATED: Final = "estimated: bytes / 3, more beyond ASCII, and the template's share"
AT_LEAST: Final = "at least"
#: Part of the budget that is advised for the answer where prompt and answer are both too long.
MODEST: Final = 4


def too_long(
    path: str, budget: int, prompt: int, answer: int, how: str, hint: str = "", *, likely: int | None = None
) -> ApiError:
    """Return the 400 that names all the numbers. `how` says where the prompt's comes from.

    `likely` is what the advice goes by where `prompt` is less than what there probably is: who does as he is advised
    should not be refused again.
    The first words are those of OpenAI and of Anthropic: programs shorten a conversation when they see them.
    """
    asked = f"{answer} for the answer" if answer else "no room left for the answer"
    numbers = f"{prompt} in the prompt ({how}), {asked}"
    guessed = likely is not None and likely > prompt
    advice = _advice(budget, max(prompt, likely or 0), answer, "about" if guessed else "at least")
    text = f"{_first_words(path, budget, prompt, answer)} ({numbers}). {advice}"
    return ApiError(CODE, f"{text} {hint}".rstrip())


def _first_words(path: str, budget: int, prompt: int, answer: int) -> str:
    if path == MESSAGES:
        if prompt < budget and answer:
            return f"input length and `max_tokens` exceed context limit: {prompt} + {answer} > {budget}"
        return f"prompt is too long: {prompt} tokens > {budget} maximum"
    total = prompt + answer
    return f"This model's maximum context length is {budget} tokens. However, you requested {total} tokens"


def _advice(budget: int, prompt: int, answer: int, by: str) -> str:
    """Return what would make the request fit, and is not absurd: a prompt of which little is left is none."""
    left, over = budget - prompt, prompt + max(1, answer) - budget
    if answer and left > 0:
        or_else = f", or shorten the prompt by {over}" if over <= prompt // 2 else ""
        return f"Ask for at most {left} tokens of answer{or_else}."
    if answer > budget // 2:
        answer = max(1, budget // MODEST)
        over = prompt + answer - budget
        return f"Ask for a shorter answer, of at most {answer} tokens, and shorten the prompt by {by} {over}."
    return f"Shorten the prompt by {by} {over} tokens."
