"""The generator's messages, written short."""

from collections.abc import Sequence

from groundline.v1 import chat_pb2
from groundline.v1.chat_pb2 import ChatMessage, Usage
from groundline.v1.generator_service_pb2 import GenerateRequest, NumberedPassage
from groundline.v1.options_pb2 import GenerationOptions

__all__ = ["ask", "numbered", "used", "user"]


def numbered(
    number: int,
    text: str,
    *,
    context: str = "",
    title: str = "",
    uri: str = "",
    chunk_id: str = "",
    similarity: float | None = None,
) -> NumberedPassage:
    return NumberedPassage(
        number=number,
        text=text,
        context=context,
        title=title,
        uri=uri,
        chunk_id=chunk_id,
        similarity=similarity,
    )


def ask(
    query: str,
    passages: Sequence[NumberedPassage] = (),
    chat_history: Sequence[ChatMessage] = (),
    *,
    options: GenerationOptions | None = None,
    additional_context: str = "",
) -> GenerateRequest:
    return GenerateRequest(
        query=query,
        passages=passages,
        chat_history=chat_history,
        options=options,
        additional_context=additional_context,
    )


def user(content: str) -> ChatMessage:
    return ChatMessage(role=chat_pb2.ChatMessage.USER, content=content)


def used(prompt: int = 0, cached: int = 0, output: int = 0) -> Usage:
    return Usage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)
