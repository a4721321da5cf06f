"""The descriptor set that tells Envoy how JSON and gRPC map to each other."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from groundline.v1 import (
    administration_service_pb2,
    coordinator_service_pb2,
    ingestor_service_pb2,
    retriever_service_pb2,
)

# Envoy prints a google.rpc.Status only when the set also describes the messages in its details.
_FILES: Final = (
    coordinator_service_pb2.DESCRIPTOR,
    retriever_service_pb2.DESCRIPTOR,
    ingestor_service_pb2.DESCRIPTOR,
    administration_service_pb2.DESCRIPTOR,
    error_details_pb2.DESCRIPTOR,
)

_PACKAGE: Final = coordinator_service_pb2.DESCRIPTOR.package


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


def short_names_too(files: FileDescriptorSet) -> FileDescriptorSet:
    """Return the set with a second name for every enum value, the one without the enum's: KEYWORD beside
    RETRIEVAL_MODE_KEYWORD.

    Names of values must differ within what holds the enum, so each enum gets a message of its own around it.
    Neither JSON nor the wire names enums, and what is printed is a value's first name.
    """
    found = FileDescriptorSet()
    found.CopyFrom(files)
    moved: dict[str, str] = {}
    own_files = [file for file in found.file if file.package == _PACKAGE]
    for file in own_files:
        enums = [enum for enum in file.enum_type if _short_names(enum)]
        others = [enum for enum in file.enum_type if not _short_names(enum)]
        for enum in enums:
            holder = file.message_type.add(name=f"{enum.name}Names")
            moved[f".{file.package}.{enum.name}"] = f".{file.package}.{holder.name}.{enum.name}"
            own = holder.enum_type.add()
            own.CopyFrom(enum)
            own.options.allow_alias = True
            for number, name in _short_names(enum).items():
                own.value.add(name=name, number=number)
        del file.enum_type[:]
        file.enum_type.extend(others)
    for file in own_files:
        for message in _messages(file.message_type):
            for field in message.field:
                if field.type_name in moved:
                    field.type_name = moved[field.type_name]
    return found


def _short_names(enum: EnumDescriptorProto) -> Mapping[int, str]:
    """Return the values' names without the enum's, by number; of UNSPECIFIED, and of names without a prefix,
    none."""
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    return {
        value.number: value.name.removeprefix(prefix)
        for value in enum.value
        if value.number and value.name.startswith(prefix)
    }


def _messages(messages: Iterable[DescriptorProto]) -> Iterator[DescriptorProto]:
    for message in messages:
        yield message
        yield from _messages(message.nested_type)
