"""Model calls that return one JSON object."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from groundline.v1 import chat_pb2
from groundline_runtime.charges import charged, total
from groundline_runtime.errors import InternalError
from pydantic import BaseModel, ValidationError

from groundline_generator.domain.calls import ModelCall, ModelFinished
from groundline_generator.ports import ChatModel

_WHY_UNUSABLE: Final[Mapping[chat_pb2.FinishReason.ValueType, str]] = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: "its limit on tokens was too low",
    chat_pb2.FINISH_REASON_SAFETY: "the provider withheld it for safety",
}


def question(model: str, system: str, prompt: str, answer: type[BaseModel]) -> ModelCall:
    """Return a call at temperature 0 that asks for one JSON object of the given class."""
    return ModelCall(
        model=model,
        system=system,
        messages=(chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=prompt),),
        temperature=0.0,
        schema=schema_of(answer),
    )


async def structured[T: BaseModel](
    model: ChatModel,
    call: ModelCall,
    answer: type[T],
    paid: list[chat_pb2.Usage],
    *,
    max_calls: int = 2,
) -> T:
    """Call for one JSON object of the given class, and again if the reply is not one.

    The usage of each call is added to `paid`. Raises InternalError if none of `max_calls` replies is one, or
    the provider cut one short.
    """
    for calls_left in reversed(range(max_calls)):
        text, finished = await _reply(model, call)
        paid.append(finished.usage)
        try:
            return answer.model_validate_json(_json_object(text))
        except ValidationError:
            why = _WHY_UNUSABLE.get(finished.finish_reason)
            if not calls_left or why is not None:
                break
    raise InternalError(
        "MODEL_OUTPUT_INVALID",
        f"the model's output cannot be used: {why or 'it is not of the form asked for'}",
    )


async def asked[T: BaseModel](
    chat: ChatModel, model: str, system: str, prompt: str, answer: type[T], *, max_calls: int = 2
) -> tuple[T, chat_pb2.Usage]:
    """Ask a question, and return the object and what the calls cost; an error tells that as well."""
    paid: list[chat_pb2.Usage] = []
    with charged(paid):
        call = question(model, system, prompt, answer)
        return await structured(chat, call, answer, paid, max_calls=max_calls), total(paid)


async def _reply(model: ChatModel, call: ModelCall) -> tuple[str, ModelFinished]:
    pieces: list[str] = []
    finished = ModelFinished(chat_pb2.FINISH_REASON_STOP)
    async with aclosing(model.stream(call)) as events:
        async for event in events:
            if isinstance(event, str):
                pieces.append(event)
            else:
                finished = event
    return "".join(pieces), finished


def schema_of(answer: type[BaseModel]) -> Mapping[str, object]:
    """Return the class's schema in the form that strict providers accept: closed, all fields required, no
    defaults."""
    schema = answer.model_json_schema()
    _close(schema)
    return schema


def _close(node: object) -> None:
    if isinstance(node, dict):
        for key in ("title", "default", "minimum", "maximum"):
            if not isinstance(node.get(key), dict):
                node.pop(key, None)
        if isinstance(properties := node.get("properties"), dict):
            node["additionalProperties"] = False
            node["required"] = list(properties)
        for value in node.values():
            _close(value)
    elif isinstance(node, list):
        for value in node:
            _close(value)


def _json_object(text: str) -> str:
    """Return the text from the first to the last brace; models like to wrap JSON in prose or a fence."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
