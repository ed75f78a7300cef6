"""Anthropic's Messages API in front of engines that speak OpenAI's chat completions. Pure: no I/O, no clock."""

from reconciler.gateway.messages.answer import from_chat
from reconciler.gateway.messages.errors import body_for, error_body
from reconciler.gateway.messages.request import to_chat
from reconciler.gateway.messages.transform import CHAT_TARGET, MessagesTransform, counted, upstream_headers

__all__ = [
    "CHAT_TARGET",
    "MessagesTransform",
    "body_for",
    "counted",
    "error_body",
    "from_chat",
    "to_chat",
    "upstream_headers",
]
