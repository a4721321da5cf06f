"""Server of administration and reflection, which the gateway answers itself over gRPC, at a socket that only
its Envoy reaches."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
from groundline.v1 import administration_service_pb2_grpc
from groundline_database import DatabaseSettings
from groundline_runtime.serving.interceptors import server_interceptors
from groundline_runtime.settings import SettingsError
from groundline_validation import validate

from groundline_gateway.administration.servicer import AdministrationServicer
from groundline_gateway.reflection import add_reflection

_MAX_STREAMS: Final = 100
_OTHERS_NOTHING: Final = 0o177


@asynccontextmanager
async def answering(
    socket: Path, database: DatabaseSettings | None, *, timeout_seconds: float, with_reflection: bool
) -> AsyncIterator[None]:
    """Answer at a Unix socket while the body runs: administration if there is a database, and reflection.

    Whoever reaches the socket is taken for a caller with the scope, so it is this user's alone. Raises
    SettingsError if it cannot be created.
    """
    server = grpc.aio.server(
        interceptors=server_interceptors(timeout_seconds, validate), maximum_concurrent_rpcs=_MAX_STREAMS
    )
    if database is not None:
        servicer = AdministrationServicer(database)
        administration_service_pb2_grpc.add_AdministrationServiceServicer_to_server(servicer, server)
    if with_reflection:
        add_reflection(server)
    before = os.umask(_OTHERS_NOTHING)
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError:
        raise SettingsError(f"cannot create the socket {socket}; its path may have 107 bytes") from None
    finally:
        os.umask(before)
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
