"""The descriptor set that tells Envoy how JSON and gRPC map to each other."""

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from groundline.v1 import coordinator_service_pb2, ingestor_service_pb2, retriever_service_pb2

# Envoy prints a google.rpc.Status only when the set also describes the messages in its details.
_FILES: Final = (
    coordinator_service_pb2.DESCRIPTOR,
    retriever_service_pb2.DESCRIPTOR,
    ingestor_service_pb2.DESCRIPTOR,
    error_details_pb2.DESCRIPTOR,
)


def exposed_services() -> tuple[ServiceDescriptor, ...]:
    """Return the services that the gateway transcodes."""
    return tuple(service for file in _FILES for service in file.services_by_name.values())


def descriptor_set() -> FileDescriptorSet:
    """Return the exposed services' files with everything that they import, every file after its imports."""
    ordered: dict[str, FileDescriptorProto] = {}

    def add(files: Iterable[FileDescriptor]) -> None:
        for file in files:
            if file.name not in ordered:
                add(file.dependencies)
                ordered[file.name] = FileDescriptorProto.FromString(file.serialized_pb)

    add(_FILES)
    return FileDescriptorSet(file=ordered.values())
