"""Fields that a JSON body or a query may have, from the contracts, in the form that bodies.lua reads."""

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from groundline_gateway.endpoints import Endpoint
from groundline_gateway.envoy import lua
from groundline_gateway.envoy.nodes import resource

MAX_DEPTH: Final = 30
"""Maximum levels of nesting. An object of free form is three levels of a message, whose decoder takes 100."""

MAX_VALUES: Final = 100_000
"""Maximum values in a body, those in inner lists and objects included."""

# Free-form objects, or types with a JSON form of their own: their members are not fields.
_WELL_KNOWN: Final = "google.protobuf."


def script(endpoints: Iterable[Endpoint]) -> str:
    """Return bodies.lua with the messages of the endpoints' requests."""
    messages: dict[str, Any] = {}
    routes: dict[str, Any] = {}
    for endpoint in endpoints:
        body, request = endpoint.json_body, endpoint.method.input_type
        routes[endpoint.name] = {
            "raw": endpoint.is_upload,
            "message": body and body.full_name,
            "request": request.full_name,
            "path": {f".{name}": True for name in endpoint.variables},
        }
        _add(messages, request)
        if body is not None:
            _add(messages, body)
    return lua.constants(
        MESSAGES=messages, ROUTES=routes, MAX_DEPTH=MAX_DEPTH, MAX_VALUES=MAX_VALUES
    ) + resource("envoy/bodies.lua")


def _add(messages: dict[str, Any], message: Descriptor) -> None:
    if message.full_name in messages:
        return
    if message.GetOptions().map_entry:
        _add_map(messages, message)
        return
    fields: dict[str, str] = {}
    inner: dict[str, str] = {}
    lists = {field.name: True for field in message.fields if field.is_repeated}
    messages[message.full_name] = {"fields": fields, "lists": lists, "inner": inner}
    for field in message.fields:
        # A client may use either spelling of a field.
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
    """Return the message whose fields a field's value has; None if its value has no fields."""
    found = field.message_type
    return None if found is None or found.full_name.startswith(_WELL_KNOWN) else found
