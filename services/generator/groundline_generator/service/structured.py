"""Model calls whose answer is one JSON object."""

from collections.abc import Mapping
from contextlib import aclosing

from groundline.v1 import chat_pb2
from groundline.v1.chat_pb2 import FinishReason, Usage
from groundline_runtime.errors import InternalError
from pydantic import BaseModel, ValidationError

from groundline_generator.domain.calls import ModelCall
from groundline_generator.ports import ChatModel

__all__ = ["schema_of", "structured"]

_WHY_UNUSABLE: Mapping[FinishReason.ValueType, str] = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: "its limit on tokens was too low",
    chat_pb2.FINISH_REASON_SAFETY: "the provider withheld it for safety",
}


async def structured[T: BaseModel](model: ChatModel, call: ModelCall, answer: type[T]) -> tuple[T, Usage]:
    """Call for one JSON object of the given class. Raises InternalError where what comes is none."""
    pieces: list[str] = []
    usage = Usage()
    finish = chat_pb2.FINISH_REASON_STOP
    async with aclosing(model.stream(call)) as events:
        async for event in events:
            if isinstance(event, str):
                pieces.append(event)
            else:
                usage, finish = event.usage, event.finish_reason
    try:
        return answer.model_validate_json(_json_object("".join(pieces))), usage
    except ValidationError:
        why = _WHY_UNUSABLE.get(finish, "it is not of the form asked for")
        raise InternalError("MODEL_OUTPUT_INVALID", f"the model's output cannot be used: {why}") from None


def schema_of(answer: type[BaseModel]) -> Mapping[str, object]:
    """The class's schema in the form that strict providers accept: closed, all fields required, no
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
    """What stands between the first and the last brace; models like to wrap JSON in prose or a fence."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
