"""CollectorService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import grpc
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import collector_service_pb2_grpc
from groundline_runtime.context import give_place_back
from groundline_runtime.serving.interceptors import write_response

from groundline_collector.adapters.webhooks import WebhookSender
from groundline_collector.ports import Sources, UndeliveredError
from groundline_collector.service import Collecting, Turns

SERVICE: Final = "groundline.v1.CollectorService"

type Context = "grpc.aio.ServicerContext[Any, Any]"


class CollectorServicer(collector_service_pb2_grpc.CollectorServiceServicer):
    def __init__(self, collecting: Collecting, sources: Sources, webhooks: WebhookSender) -> None:
        self._collecting = collecting
        self._sources = sources
        self._webhooks = webhooks

    async def Collect(  # type: ignore[override]  # writes its responses itself
        self, requests: AsyncIterator[pb.CollectRequest], context: Context
    ) -> None:
        # Runs last for hours, and have a bound of their own.
        give_place_back()
        await context.send_initial_metadata(())
        await self._collecting.collect(Turns(requests, partial(write_response, context)))

    async def CheckSource(self, request: pb.CheckSourceRequest, context: Context) -> pb.CheckSourceResponse:
        self._sources.require_available(request.source)
        return pb.CheckSourceResponse()

    async def SendNotice(self, request: pb.SendNoticeRequest, context: Context) -> pb.SendNoticeResponse:
        try:
            await self._webhooks.send(request)
        except UndeliveredError as error:
            return pb.SendNoticeResponse(failure=str(error))
        return pb.SendNoticeResponse()
