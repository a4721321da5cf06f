"""Models in memory with scripted answers."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.calls import ModelCall, ModelFinished, OnWait


class ScriptedChat:
    """A ChatModel in memory: each call gets the next script of texts, an end, or a failure."""

    provider = "scripted"

    def __init__(self, *scripts: Sequence[str | ModelFinished | Exception]) -> None:
        self._scripts = list(scripts)
        self.calls: list[ModelCall] = []
        self.open = 0

    def cache(self, model: str, system: str, prefix: str) -> AbstractAsyncContextManager[str | None]:
        return nullcontext()

    async def stream(self, call: ModelCall) -> AsyncGenerator[str | ModelFinished]:
        self.calls.append(call)
        self.open += 1
        try:
            for step in self._scripts.pop(0):
                if isinstance(step, Exception):
                    raise step
                yield step
        finally:
            self.open -= 1


class ScriptedModel:
    """An AnswerModel that says what it was given to say."""

    def __init__(self, *events: str | ModelFinished | Exception) -> None:
        self._events = events
        self.closed = False

    def check(self, request: pb.GenerateRequest) -> str:
        return "scripted"

    def served(self, request: pb.GenerateRequest) -> Sequence[pb.NumberedPassage]:
        return request.passages

    async def stream(
        self, request: pb.GenerateRequest, served: Sequence[pb.NumberedPassage], on_wait: OnWait
    ) -> AsyncGenerator[str | ModelFinished]:
        try:
            for event in self._events:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed = True
