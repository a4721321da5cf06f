"""Client of the Groundline gateway.

`Client` and `AsyncClient` have the same methods; their parameters and results are in
`groundline_client.models`.
"""

from groundline_client.async_client import AsyncClient
from groundline_client.errors import (
    ApiError,
    DeadlineExceededError,
    FieldViolation,
    GatewayError,
    ProtocolError,
    UnreachableError,
    UnsendableError,
)
from groundline_client.json_form import JsonObject, from_json, to_json
from groundline_client.sync_client import Client
from groundline_client.transport.messages import ChatEvent, corrected, has_ended, is_loopback

__all__ = [
    "ApiError",
    "AsyncClient",
    "ChatEvent",
    "Client",
    "DeadlineExceededError",
    "FieldViolation",
    "GatewayError",
    "JsonObject",
    "ProtocolError",
    "UnreachableError",
    "UnsendableError",
    "corrected",
    "from_json",
    "has_ended",
    "is_loopback",
    "to_json",
]
