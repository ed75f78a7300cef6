"""Tokens of a prompt without its tokenizer: at most, at least, and what is said when nobody can count.

Measured (bytes of UTF-8 for one token; SmolLM2 with 49 k words, Gemma 3 with 262 k): English 3.2 and 3.3, code
3.6 and 3.5, German 2.7 and 5.0, Chinese 1.8 and 5.1, Thai 1.6 and 11.4, emoji 1.4 and 3.7, base64 1.2 and 1.4,
digits 1.0, dashes 63 and 16, spaces 63 and 31.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from reconciler.gateway.context.text import TEXTUAL, Extent, extent_of, solid_bytes

#: Tokens at most that a template adds to a conversation: its own system message, the words before tools, the
#: beginning of the answer.
TEMPLATE_TOKENS: Final = 512
#: Tokens at most around one message. Measured: 18, where a vocabulary spells the marks out.
MESSAGE_TOKENS: Final = 32
#: Tokens around one message where a usual figure is wanted.
_USUAL_MESSAGE_TOKENS: Final = 6
#: What the estimate of a whole request allows for beyond that, so that it is not below in ordinary chats: for what a
#: template adds to a conversation (its own system message: 24 with SmolLM2), and around each message (14 in all where
#: a vocabulary spells the marks out, as Gemma 3's does).
_TEMPLATE_ALLOWANCE: Final = 32
_MESSAGE_ALLOWANCE: Final = 10
#: The mark at the beginning of a prompt without a template.
_BEGINNING: Final = 1
#: All the marks that a prompt without a template may get: its beginning, and what is around the parts of an infill.
_MARKS: Final = 8
#: What every template may add, whatever the context. (Own system messages of 20 to 45 tokens are usual.)
_SMALL_TEMPLATE: Final = 96
#: Fields that a template puts words of its own around.
_DESCRIBED: Final = ("tools", "functions", "response_format", "text")
#: No text that people write comes near so many bytes for each token (11.4 was seen); blanks and lines set aside.
_MOST_BYTES: Final = 16
#: The plain estimate: bytes for each token of ASCII, and of other characters.
_ASCII_BYTES: Final = 3.0
_WIDE_BYTES: Final = 1.5


def template_tokens(path: str, document: Mapping[str, Any], context: int) -> int:
    """Return the tokens at most that a template adds to a request for a model with so many tokens of context.

    Where no tools are described, nobody runs a template that takes more than a quarter of the context for itself,
    unless that is very little.
    """
    if path in TEXTUAL:
        return _MARKS
    if any(document.get(field) for field in _DESCRIBED):
        return TEMPLATE_TOKENS
    return min(TEMPLATE_TOKENS, max(_SMALL_TEMPLATE, context // 4))


def body_bound(size: int, template: int = TEMPLATE_TOKENS) -> int:
    """Return the tokens that a JSON body of `size` bytes, without media, can be at most; `template` are those around.

    A token takes a byte of UTF-8 or more (byte fallback), JSON never writes a character in fewer bytes than UTF-8,
    and the words around a message in JSON are longer than those in a template.
    """
    return size + template


def upper(extent: Extent, template: int = TEMPLATE_TOKENS) -> int:
    """Return the tokens that are not exceeded: every byte one token; `template` are those around."""
    around = MESSAGE_TOKENS * extent.messages + template
    return extent.text + extent.other + extent.ids + extent.media + around


def least_of_body(size: int) -> int:
    """Return what the lower estimate of a JSON body of `size` bytes, without token ids, is at most."""
    return size // _MOST_BYTES


def lower(path: str, document: Mapping[str, Any]) -> int:
    """Return the tokens a prompt has at least: a figure for long texts, near nothing for short ones."""
    return solid_bytes(path, document) // _MOST_BYTES + extent_of(path, document).ids


def plain(extent: Extent) -> int:
    """Return the usual figure for an extent: ASCII bytes / 3 + other bytes / 1.5, with figures for messages and media.

    Above the real count for prose and code in most languages; below it for languages a vocabulary knows little of,
    and (by up to two thirds) for long numbers and base64 as text.
    """
    narrow = extent.text + extent.other - extent.wide
    text = narrow / _ASCII_BYTES + extent.wide / _WIDE_BYTES
    return math.ceil(text) + extent.ids + extent.media + _USUAL_MESSAGE_TOKENS * extent.messages


def estimated_tokens(path: str, document: Mapping[str, Any]) -> int:
    """Return the stated estimate of a request's prompt: the usual figure, and what a template may add to it."""
    extent = extent_of(path, document)
    if not extent.messages:
        return plain(extent) + _BEGINNING
    return plain(extent) + _TEMPLATE_ALLOWANCE + _MESSAGE_ALLOWANCE * extent.messages
