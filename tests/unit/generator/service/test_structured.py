"""Calls for JSON, and what they cost when the reply is of no use."""

from collections.abc import Sequence

import pytest
from groundline.v1 import chat_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelCall, ModelChoice, ModelFinished
from groundline_generator.service.contextualizing import Contextualizer
from groundline_generator.service.structured import structured
from groundline_runtime.charges import charged, usage_of
from groundline_runtime.errors import InternalError, UnavailableError
from groundline_tests.generator.messages import used, user
from groundline_tests.generator.models import ScriptedChat
from pydantic import BaseModel

CALL = ModelCall("m", "", (user("Hi"),))
END = ModelFinished(chat_pb2.FINISH_REASON_STOP, used(5, 1, 2))


class Answer(BaseModel):
    a: int


@pytest.mark.parametrize("text", ['{"a": 1}', '```json\n{"a": 1}\n```', 'Sure: {"a": 1}.'])
async def test_the_object_may_be_wrapped(text: str) -> None:
    paid: list[chat_pb2.Usage] = []
    assert await structured(ScriptedChat([text, END]), CALL, Answer, paid) == Answer(a=1)
    assert paid == [used(5, 1, 2)]


@pytest.mark.parametrize("text", ["", "no", '{"a": "x"}', '{"a": 1'])
async def test_a_reply_of_another_form_is_asked_for_once_more_and_paid_for(text: str) -> None:
    paid: list[chat_pb2.Usage] = []
    chat = ScriptedChat([text, END], ['{"a": 1}', END])
    assert await structured(chat, CALL, Answer, paid) == Answer(a=1)
    assert paid == [used(5, 1, 2)] * 2


async def test_a_second_such_reply_is_an_error() -> None:
    paid: list[chat_pb2.Usage] = []
    with pytest.raises(InternalError) as failure:
        await structured(ScriptedChat(["no", END], ["no", END]), CALL, Answer, paid)
    assert failure.value.reason == "MODEL_OUTPUT_INVALID"
    assert paid == [used(5, 1, 2)] * 2


@pytest.mark.parametrize("finish", [chat_pb2.FINISH_REASON_MAX_TOKENS, chat_pb2.FINISH_REASON_SAFETY])
async def test_what_the_provider_ended_is_not_asked_again(finish: chat_pb2.FinishReason.ValueType) -> None:
    chat = ScriptedChat(['{"a": ', ModelFinished(finish)])
    with pytest.raises(InternalError):
        await structured(chat, CALL, Answer, [])
    assert len(chat.calls) == 1


async def test_an_error_tells_what_was_paid_for_before_it() -> None:
    with pytest.raises(UnavailableError) as failure, charged([used(5, 1, 2), used(7, 0, 1)]):
        raise UnavailableError("DOWN", "down", metadata={"http_status": "503"})
    assert dict(failure.value.metadata) == {
        "http_status": "503",
        "prompt_tokens": "12",
        "cached_tokens": "1",
        "output_tokens": "3",
    }
    assert usage_of(failure.value) == used(12, 1, 3)


async def test_what_a_failed_request_had_used_is_told() -> None:
    """The first of two calls succeeds, and the second twice writes an unusable reply."""
    contexts = ", ".join(f'{{"chunk": {n}, "context": "c"}}' for n in range(1, 11))
    scripts: list[Sequence[str | ModelFinished | Exception]] = [
        [f'{{"contexts": [{contexts}]}}', END],
        ["no", END],
        ["no", END],
    ]
    contextualizer = Contextualizer(ScriptedChat(*scripts), ModelChoice("m"), 1000)
    request = pb.ContextualizeChunksRequest(document_text="d", chunk_texts=["x"] * 11)
    with pytest.raises(InternalError) as failure:
        await contextualizer.contextualize(request)
    assert usage_of(failure.value) == used(15, 3, 6)
