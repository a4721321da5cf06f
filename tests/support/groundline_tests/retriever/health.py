"""Health of a retriever, as it is watched over the wire."""

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


async def health_becomes(target: str, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
    async with grpc.aio.insecure_channel(target) as channel, asyncio.timeout(20):
        request = health_pb2.HealthCheckRequest(service="groundline.v1.RetrieverService")
        async for response in health_pb2_grpc.HealthStub(channel).Watch(request):
            if response.status == status:
                return
