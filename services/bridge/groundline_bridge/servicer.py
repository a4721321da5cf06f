"""The OpenAI API over HTTP."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from groundline.v1 import coordinator_service_pb2
from groundline_runtime.errors import GroundlineError, NotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from groundline_bridge.adapters.events import event_stream, sse
from groundline_bridge.checked import read_json, validated
from groundline_bridge.domain.conversation import answer_request_of, chat_request_of
from groundline_bridge.domain.models import collections_of
from groundline_bridge.gateway import current_gateway
from groundline_bridge.openai.completions import Chunks, completion
from groundline_bridge.openai.embeddings import (
    EmbeddingsRequest,
    embed_request_of,
    embeddings,
    unknown_embedding_model,
)
from groundline_bridge.openai.errors import body_of, in_words_of_openai
from groundline_bridge.openai.requests import ChatCompletionRequest, ResponseRequest
from groundline_bridge.openai.responses import ResponseEvents, response
from groundline_bridge.ports import Coordinator, Ingestor
from groundline_bridge.service import ModelService

type AnyRequest = ChatCompletionRequest | ResponseRequest


class OpenAiServicer:
    """Endpoints that translate requests into the contract's messages, and replies into the OpenAI API's."""

    def __init__(
        self,
        coordinator: Coordinator,
        ingestor: Ingestor,
        *,
        heartbeat_seconds: float,
    ) -> None:
        self._coordinator = coordinator
        self._ingestor = ingestor
        self._models = ModelService(ingestor)
        self._heartbeat_seconds = heartbeat_seconds

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route("/v1/models/{model}", self.get_model, methods=["GET"]),
            Route("/v1/chat/completions", self.create_chat_completion, methods=["POST"]),
            Route("/v1/responses", self.create_response, methods=["POST"]),
            Route("/v1/embeddings", self.create_embeddings, methods=["POST"]),
        ]

    async def list_models(self, request: Request) -> Response:
        return JSONResponse(await self._models.list())

    async def get_model(self, request: Request) -> Response:
        model = request.path_params["model"]
        with _about(model):
            return JSONResponse(await self._models.get(model))

    async def create_chat_completion(self, request: Request) -> Response:
        asked, created = validated(ChatCompletionRequest, read_json(await request.body())), int(time.time())
        with _about(asked.model):
            question = _question(asked)
            if not asked.stream:
                answer = await self._coordinator.answer(answer_request_of(question))
                return JSONResponse(
                    completion(answer, model=asked.model, created=created, gateway=current_gateway())
                )
            chunks = Chunks(
                model=asked.model,
                created=created,
                gateway=current_gateway(),
                includes_usage=asked.includes_usage,
            )

            def written(event: coordinator_service_pb2.ChatResponse) -> Iterable[bytes]:
                yield from map(sse, chunks.of(event))
                if event.HasField("completed"):
                    yield sse("[DONE]")

            def failed(error: GroundlineError) -> Iterable[bytes]:
                yield sse(body_of(error))

            return await event_stream(
                self._coordinator.chat(question), written, failed, heartbeat_seconds=self._heartbeat_seconds
            )

    async def create_response(self, request: Request) -> Response:
        asked, created = validated(ResponseRequest, read_json(await request.body())), int(time.time())
        with _about(asked.model):
            question = _question(asked)
            if not asked.stream:
                answer = await self._coordinator.answer(answer_request_of(question))
                return JSONResponse(response(asked, answer, created=created, gateway=current_gateway()))
            events = ResponseEvents(asked, created=created, gateway=current_gateway())
            return await event_stream(
                self._coordinator.chat(question),
                lambda event: map(_named, events.of(event)),
                lambda error: (_named(events.failed(error)),),
                heartbeat_seconds=self._heartbeat_seconds,
            )

    async def create_embeddings(self, request: Request) -> Response:
        asked = validated(EmbeddingsRequest, read_json(await request.body()))
        try:
            embedded = await self._ingestor.embed_texts(embed_request_of(asked))
        except GroundlineError as error:
            raise unknown_embedding_model(error) from error
        return JSONResponse(embeddings(embedded, encoding_format=asked.encoding_format))


def application(routes: list[BaseRoute]) -> Router:
    """Return an application that answers only at the addresses of the routes."""
    return Router(routes, redirect_slashes=False, default=_nothing_here)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFoundError("ROUTE_NOT_FOUND", "there is nothing at this address")


def _question(asked: AnyRequest) -> coordinator_service_pb2.ChatRequest:
    return chat_request_of(
        collections_of(asked.model),
        asked.utterances,
        temperature=asked.temperature,
        max_output_tokens=asked.max_output_tokens,
        extension=asked.groundline.given,
    )


@contextmanager
def _about(model: str) -> Iterator[None]:
    """Translate errors of the block into the OpenAI API's."""
    try:
        yield
    except GroundlineError as error:
        raise in_words_of_openai(error, model) from error


def _named(event: dict[str, Any]) -> bytes:
    return sse(event, event=event["type"])
