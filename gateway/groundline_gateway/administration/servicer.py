"""AdministrationService over gRPC."""

# ruff: noqa: N802 - the contract names the methods
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from groundline.v1 import administration_service_pb2 as pb
from groundline.v1 import administration_service_pb2_grpc
from groundline_database import DatabaseSettings, Pool, open_pool, require_schema

from groundline_gateway.administration.audit import AuditAdministration
from groundline_gateway.administration.keys import KeyAdministration
from groundline_gateway.auditing.store import AuditStore
from groundline_gateway.keys import SCHEMA, KeyStore

type Context = "grpc.aio.ServicerContext[Any, Any]"

_CREATED: Final = "x-groundline-created"
"""Trailing metadata with the id of what a call has created, for the audit log."""


class AdministrationServicer(administration_service_pb2_grpc.AdministrationServiceServicer):
    """Servicer at the gateway's own socket, where only callers with the scope arrive. It connects to the
    database while it is asked: between, a gateway holds no connection for it."""

    def __init__(self, database: DatabaseSettings) -> None:
        self._database = database
        self._connection = asyncio.Lock()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Pool]:
        # One at a time, since the replicas' connections add up.
        async with self._connection, open_pool(self._database) as pool:
            await require_schema(pool, SCHEMA)
            yield pool

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        async with self._connected() as pool:
            return await KeyAdministration(KeyStore(pool)).list_keys(request)

    async def CreateApiKey(
        self, request: pb.CreateApiKeyRequest, context: Context
    ) -> pb.CreateApiKeyResponse:
        async with self._connected() as pool:
            response = await KeyAdministration(KeyStore(pool)).create(request)
        context.set_trailing_metadata(((_CREATED, f"key:{response.key.key_id}"),))
        return response

    async def RevokeApiKey(
        self, request: pb.RevokeApiKeyRequest, context: Context
    ) -> pb.RevokeApiKeyResponse:
        async with self._connected() as pool:
            return await KeyAdministration(KeyStore(pool)).revoke(request)

    async def ListAuditEntries(
        self, request: pb.ListAuditEntriesRequest, context: Context
    ) -> pb.ListAuditEntriesResponse:
        async with self._connected() as pool:
            return await AuditAdministration(AuditStore(pool)).list_entries(request)
