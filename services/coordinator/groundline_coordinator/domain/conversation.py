"""What of a conversation goes to the model, and what a request has used."""

from collections.abc import Sequence

from groundline.v1 import chat_pb2
from groundline_runtime.tokens import estimated_tokens

__all__ = ["add_usage", "recent_history"]


def recent_history(
    messages: Sequence[chat_pb2.ChatMessage], *, max_tokens: int
) -> list[chat_pb2.ChatMessage]:
    """The last messages that fit, oldest first; empty ones (answers cancelled at once) are left out."""
    kept: list[chat_pb2.ChatMessage] = []
    for message in reversed([message for message in messages if message.content]):
        max_tokens -= estimated_tokens(message.content)
        if max_tokens < 0:
            break
        kept.append(message)
    return kept[::-1]


def add_usage(total: chat_pb2.Usage, used: chat_pb2.Usage) -> None:
    """Adds the tokens of one model call to a total."""
    total.prompt_tokens += used.prompt_tokens
    total.cached_tokens += used.cached_tokens
    total.output_tokens += used.output_tokens
