"""Addresses that the contracts give their RPCs: one endpoint for each google.api.http rule."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.api import annotations_pb2  # type: ignore[import-untyped]
from google.api.httpbody_pb2 import HttpBody  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from groundline_gateway.descriptors import exposed_services

_VARIABLE: Final = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """HTTP method and path of an RPC."""

    method: MethodDescriptor
    verb: str
    """GET, POST and so on."""
    template: str
    """Path with {variables}."""
    body_field: str
    """Field that the body holds; "*": the whole request; "": no body."""
    response_field: str = ""
    """Field that the response's body holds; "": the whole response."""

    @property
    def name(self) -> str:
        """Name of the RPC, unique among the exposed services."""
        return str(self.method.name)

    @property
    def rpc(self) -> str:
        """Path of the RPC, as gRPC spells it."""
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    @property
    def service(self) -> str:
        """Name of the RPC's service, such as coordinator."""
        return str(self.method.containing_service.name).removesuffix("Service").lower()

    @property
    def pattern(self) -> str:
        """Regular expression that matches its paths."""
        return "[^/]+".join(re.escape(part) for part in _VARIABLE.split(self.template))

    @property
    def variables(self) -> Sequence[str]:
        """Fields that its paths hold."""
        return [variable[1:-1].partition("=")[0] for variable in _VARIABLE.findall(self.template)]

    @property
    def is_fixed(self) -> bool:
        """Whether it has one path only."""
        return not _VARIABLE.search(self.template)

    @property
    def json_body(self) -> Descriptor | None:
        """Message that the body spells as JSON; None without a body, or for one that is not JSON."""
        body = self._body
        return None if body is None or self.is_upload else body

    @property
    def is_upload(self) -> bool:
        """Whether the body is passed on as it is, piece by piece."""
        body = self._body
        return body is not None and body.full_name == HttpBody.DESCRIPTOR.full_name

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of events."""
        return bool(self.method.server_streaming) and not self.is_download

    @property
    def is_download(self) -> bool:
        """Whether the response is passed on as it is, piece by piece."""
        if not self.response_field:
            return False
        body = self.method.output_type.fields_by_name[self.response_field].message_type
        return body is not None and body.full_name == HttpBody.DESCRIPTOR.full_name

    @property
    def has_no_side_effects(self) -> bool:
        """Whether it may be sent again at any time."""
        level = self.method.GetOptions().idempotency_level
        return bool(level == MethodOptions.NO_SIDE_EFFECTS)

    @property
    def is_idempotent(self) -> bool:
        """Whether it may be sent again if it got no answer."""
        level = self.method.GetOptions().idempotency_level
        return bool(level in (MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT))

    @property
    def _body(self) -> Descriptor | None:
        if not self.body_field:
            return None
        request = self.method.input_type
        return request if self.body_field == "*" else request.fields_by_name[self.body_field].message_type


def endpoints() -> tuple[Endpoint, ...]:
    """Return every endpoint of the exposed services; if two could match a path, the more specific comes
    first."""
    methods = (method for service in exposed_services() for method in service.methods)
    found = [endpoint for method in methods for endpoint in bindings(method)]
    return tuple(sorted(found, key=_generality))


def bindings(method: MethodDescriptor) -> Iterator[Endpoint]:
    """Yield the endpoints of a method, of which most have one, and those within the suite none."""
    rule: Any = method.GetOptions().Extensions[annotations_pb2.http]
    for binding in (rule, *rule.additional_bindings):
        kind = binding.WhichOneof("pattern")
        if kind is None:
            continue
        if kind == "custom":
            kind, path = binding.custom.kind, binding.custom.path
        else:
            kind, path = kind.upper(), getattr(binding, kind)
        yield Endpoint(method, kind, path, binding.body, binding.response_body)


def _generality(endpoint: Endpoint) -> tuple[bool, bool, str, str]:
    # A variable matches any path segment, one with a verb such as j:cancel included.
    return not endpoint.is_fixed, ":" not in endpoint.template, endpoint.template, endpoint.verb
