"""gRPC reflection of the RPCs that the gateway serves, for grpcurl, Postman and code generators."""

from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.reflection import enable_server_reflection

from groundline_gateway.descriptors import descriptor_set, exposed_services
from groundline_gateway.endpoints import endpoints


def add_reflection(server: grpc.aio.Server) -> None:
    """Add gRPC server reflection (v1alpha), which describes only the exposed services, and of them only the
    RPCs that the gateway serves."""
    names = [service.full_name for service in exposed_services()]
    enable_server_reflection(names, server, pool=_Symbols(_pool()))


class _Symbols:
    """Descriptor pool that also finds methods; protobuf's finds the files of all other symbols."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802 - the pool's name
        """Return the file of a symbol. Raises KeyError for an unknown one."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            return self._pool.FindMethodByName(symbol).containing_service.file


def _pool() -> DescriptorPool:
    served = {endpoint.name for endpoint in endpoints()}
    pool = DescriptorPool()
    for file in descriptor_set().file:
        for service in file.service:
            kept = [method for method in service.method if method.name in served]
            del service.method[:]
            service.method.extend(kept)
        pool.Add(file)
    return pool
