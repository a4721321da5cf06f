"""The probe service: each method does what the test hands it."""

# ruff: noqa: N802  the methods are named by the contract

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import probe_pb2  # type: ignore[import-not-found]
import probe_pb2_grpc  # type: ignore[import-not-found]
from groundline_runtime.serving.server import Application
from groundline_validation import validate

SERVICE = "probe.v1.ProbeService"


async def echo(text: str) -> str:
    return text


async def echo_twice(text: str) -> AsyncIterator[str]:
    yield text
    yield text


class ProbeServicer(probe_pb2_grpc.ProbeServiceServicer):  # type: ignore[misc]
    def __init__(
        self,
        look: Callable[[str], Awaitable[str]] = echo,
        change: Callable[[str], Awaitable[str]] = echo,
        follow: Callable[[str], AsyncIterator[str]] = echo_twice,
    ) -> None:
        self._look = look
        self._change = change
        self._follow = follow

    async def Look(self, request: Any, context: Any) -> Any:
        return probe_pb2.Answer(text=await self._look(request.text))

    async def Change(self, request: Any, context: Any) -> Any:
        return probe_pb2.Answer(text=await self._change(request.text))

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for text in self._follow(request.text):
            yield probe_pb2.Answer(text=text)

    async def Converse(self, request_iterator: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in request_iterator:
            yield probe_pb2.Answer(text=await self._change(request.text))

    async def Collect(self, request_iterator: AsyncIterator[Any], context: Any) -> Any:
        return probe_pb2.Answer(text=" ".join([request.text async for request in request_iterator]))


def application(servicer: ProbeServicer, **readiness: Callable[[], Awaitable[None]]) -> Application:
    return Application(
        services={
            SERVICE: lambda server: probe_pb2_grpc.add_ProbeServiceServicer_to_server(servicer, server)
        },
        validate=validate,
        readiness=readiness,
    )
