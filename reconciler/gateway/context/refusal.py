"""The error of a request that is too long, in the words that clients look for."""

from reconciler.gateway.context.text import MESSAGES
from reconciler.gateway.errors import ApiError

CODE = "context_length_exceeded"


def too_long(path: str, budget: int, prompt: int, answer: int, how: str, hint: str = "") -> ApiError:
    """Return the 400 that names all the numbers. `how` says where the prompt's comes from.

    The first words are those of OpenAI and of Anthropic: programs shorten a conversation when they see them.
    """
    asked = f"{answer} for the answer" if answer else "no room left for the answer"
    numbers = f"{prompt} in the prompt ({how}), {asked}"
    text = f"{_first_words(path, budget, prompt, answer)} ({numbers}). {_advice(budget, prompt, answer)}"
    return ApiError(CODE, f"{text} {hint}".rstrip())


def _first_words(path: str, budget: int, prompt: int, answer: int) -> str:
    if path == MESSAGES:
        if prompt < budget and answer:
            return f"input length and `max_tokens` exceed context limit: {prompt} + {answer} > {budget}"
        return f"prompt is too long: {prompt} tokens > {budget} maximum"
    total = prompt + answer
    return f"This model's maximum context length is {budget} tokens. However, you requested {total} tokens"


def _advice(budget: int, prompt: int, answer: int) -> str:
    left = budget - prompt
    if answer and left > 0:
        return f"Ask for at most {left} tokens of answer, or shorten the prompt by {answer - left}."
    return f"Shorten the prompt by at least {prompt + max(1, answer) - budget} tokens."


def answer_too_long(path: str, budget: int, answer: int) -> ApiError:
    """Return the 400 for an answer that would not fit beside any prompt."""
    if path == MESSAGES:
        words = f"input length and `max_tokens` exceed context limit: 1 + {answer} > {budget}"
    else:
        words = f"This model's maximum context length is {budget} tokens"
    return ApiError(CODE, f"{words}. {answer} tokens of answer were asked for alone; ask for fewer.")
