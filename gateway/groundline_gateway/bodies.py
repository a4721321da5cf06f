"""What a JSON body may hold, from the contracts, as bodies.lua reads it."""

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from groundline_gateway import lua
from groundline_gateway.endpoints import Endpoint

__all__ = ["MAX_DEPTH", "MAX_VALUES", "script"]

MAX_DEPTH = 30
"""Levels of nesting. An object of free form is three levels of a message, whose decoder takes 100."""

MAX_VALUES = 100_000
"""Values in a body, those in inner lists and objects included."""

# Written in JSON as they like, or not as an object at all: nothing in them is a field.
_WELL_KNOWN = "google.protobuf."


def script(endpoints: Iterable[Endpoint]) -> str:
    """bodies.lua, with the messages that the endpoints' bodies spell."""
    messages: dict[str, Any] = {}
    routes: dict[str, Any] = {}
    for endpoint in endpoints:
        body = endpoint.json_body
        routes[endpoint.name] = {"raw": True} if endpoint.is_upload else {"message": body and body.full_name}
        if body is not None:
            _add(messages, body)
    source = files("groundline_gateway").joinpath("bodies.lua").read_text(encoding="utf-8")
    return (
        lua.constants(MESSAGES=messages, ROUTES=routes, MAX_DEPTH=MAX_DEPTH, MAX_VALUES=MAX_VALUES) + source
    )


def _add(messages: dict[str, Any], message: Descriptor) -> None:
    if message.full_name in messages:
        return
    if message.GetOptions().map_entry:
        _add_map(messages, message)
        return
    fields: dict[str, str] = {}
    inner: dict[str, str] = {}
    messages[message.full_name] = {"fields": fields, "inner": inner}
    for field in message.fields:
        # A client may use either spelling; both are the same field.
        fields[field.name] = fields[field.json_name] = field.name
        found = _message_of(field)
        if found is not None:
            inner[field.name] = found.full_name
            _add(messages, found)


def _add_map(messages: dict[str, Any], entry: Descriptor) -> None:
    values = _message_of(entry.fields_by_name["value"])
    messages[entry.full_name] = {"inner": {}, "values": values and values.full_name}
    if values is not None:
        _add(messages, values)


def _message_of(field: FieldDescriptor) -> Descriptor | None:
    """The message whose fields stand in the field's value; None where its value has no fields of its own."""
    found = field.message_type
    return None if found is None or found.full_name.startswith(_WELL_KNOWN) else found
