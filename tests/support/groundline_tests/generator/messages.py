"""The generator's messages, written short."""

from collections.abc import Sequence

from groundline.v1 import chat_pb2, options_pb2
from groundline.v1 import generator_service_pb2 as pb


def numbered(
    number: int,
    text: str,
    *,
    context: str = "",
    title: str = "",
    uri: str = "",
    chunk_id: str = "",
    similarity: float | None = None,
    similarity_crosses_languages: bool = False,
) -> pb.NumberedPassage:
    return pb.NumberedPassage(
        number=number,
        text=text,
        context=context,
        title=title,
        uri=uri,
        chunk_id=chunk_id,
        similarity=similarity,
        similarity_crosses_languages=similarity_crosses_languages,
    )


def ask(
    query: str,
    passages: Sequence[pb.NumberedPassage] = (),
    chat_history: Sequence[chat_pb2.ChatMessage] = (),
    *,
    options: options_pb2.GenerationOptions | None = None,
    additional_context: str = "",
) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        query=query,
        passages=passages,
        chat_history=chat_history,
        options=options,
        additional_context=additional_context,
    )


def user(content: str) -> chat_pb2.ChatMessage:
    return chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=content)


def used(prompt: int = 0, cached: int = 0, output: int = 0) -> chat_pb2.Usage:
    return chat_pb2.Usage(prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)
