"""Part of a conversation that the model gets."""

from collections.abc import Sequence

from groundline.v1 import chat_pb2
from groundline_runtime.tokens import estimated_tokens


def recent_history(
    messages: Sequence[chat_pb2.ChatMessage], *, max_tokens: int
) -> list[chat_pb2.ChatMessage]:
    """Return the last messages that fit, oldest first; empty ones (answers cancelled at once) are left
    out."""
    kept: list[chat_pb2.ChatMessage] = []
    for message in reversed([message for message in messages if message.content]):
        max_tokens -= estimated_tokens(message.content)
        if max_tokens < 0:
            break
        kept.append(message)
    return kept[::-1]
