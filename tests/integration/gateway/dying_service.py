"""A program: every service, healthy, that dies of the first request without a word. It prints its port."""

import asyncio
import os
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    async def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


class _Deadly(grpc.GenericRpcHandler):
    def service(self, details: Any) -> Any:
        if details.method.startswith("/grpc.health."):
            return None

        async def die(_request: bytes, _context: Any) -> bytes:
            os._exit(1)

        return grpc.unary_unary_rpc_method_handler(die)


async def _main() -> None:
    # As the suite's own server allows it.
    server = grpc.aio.server(options=[("grpc.http2.min_ping_interval_without_data_ms", 1_000)])
    server.add_generic_rpc_handlers((_Deadly(),))
    health_pb2_grpc.add_HealthServicer_to_server(_Health(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_main())
