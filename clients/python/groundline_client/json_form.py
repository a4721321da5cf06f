"""Models as JSON and back, by the rules of proto3's JSON: names in lowerCamelCase, enums by name, times in
RFC 3339, bytes in base64."""

import base64
import binascii
import enum
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["JsonObject", "from_json", "list_from_json", "time_json", "to_json"]

type JsonObject = dict[str, Any]
"""A JSON object; as a request or part of one, its members are named in lowerCamelCase."""

type _Parse = Callable[[Any], Any]


def from_json[M](model: type[M], value: Mapping[str, Any]) -> M:
    """Parse a model from its JSON. Unknown members are ignored. Raises ValueError for one of the wrong type,
    naming it."""
    found: M = _parser(cast(Any, model))(value)
    return found


def list_from_json[M](model: type[M], value: Any) -> Sequence[M]:
    """Parse a list of models from its JSON. Raises ValueError, as `from_json` does."""
    found: Sequence[M] = _sequence(_parser(cast(Any, model)))(value)
    return found


def to_json(model: object, *, omit_defaults: bool = False) -> JsonObject:
    """Return the JSON of a model, as the gateway writes it; fields that are None are left out.

    With `omit_defaults` so are values that are their type's zero.
    """
    return {
        json_name: _written(value, omit_defaults)
        for name, json_name, default in _names(cast(Any, type(model)))
        if (value := getattr(model, name)) is not None and not (omit_defaults and value == default)
    }


def time_json(value: datetime) -> str:
    """Return the JSON of a time; one without a zone is local."""
    return value.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _written(value: Any, omit_defaults: bool) -> Any:
    if is_dataclass(value):
        return to_json(value, omit_defaults=omit_defaults)
    match value:
        case enum.Enum():
            return value.value
        case datetime():
            return time_json(value)
        case bytes():
            return base64.b64encode(value).decode()
        case str() | Mapping():
            return value
        case Sequence():
            return [_written(one, omit_defaults) for one in value]
        case _:
            return value


@cache
def _names(model: Any) -> list[tuple[str, str, Any]]:
    """Return name, JSON name and default of each field."""
    found = []
    for one in fields(model):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        head, *rest = one.name.rstrip("_").split("_")
        found.append((one.name, head + "".join(part.capitalize() for part in rest), default))
    return found


@cache
def _parser(hint: Any) -> _Parse:
    """Return the function that parses a value of a field's type from JSON."""
    if origin := get_origin(hint):
        arguments = get_args(hint)
        if origin in (Union, types.UnionType):
            (inner,) = (one for one in arguments if one is not types.NoneType)
            return _parser(inner)
        if origin is Sequence:
            return _sequence(_parser(arguments[0]))
        return _expect(dict, "an object")
    if is_dataclass(hint):
        return _message(hint)  # type: ignore[arg-type]
    if issubclass(hint, enum.Enum):
        return cast(_Parse, hint)
    return {str: _expect(str, "a text"), bool: _expect(bool, "true or false")}.get(hint) or _CONVERTED[hint]


def _message(model: type) -> _Parse:
    hints = get_type_hints(model)
    known = [(name, json_name, _parser(hints[name])) for name, json_name, _ in _names(model)]

    def parse(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be an object")
        found = {}
        for name, json_name, inner in known:
            member = value.get(json_name)
            if member is not None:
                try:
                    found[name] = inner(member)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"{json_name}: {error}") from error
        return model(**found)

    return parse


def _sequence(inner: _Parse) -> _Parse:
    def parse(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(map(inner, value))

    return parse


def _expect(kind: type, name: str) -> _Parse:
    def parse(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"must be {name}")
        return value

    return parse


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("must be base64") from error


_CONVERTED: Final[dict[Any, _Parse]] = {
    bytes: _bytes,
    datetime: datetime.fromisoformat,
    # Not numbers alone: proto3 writes NaN and the infinities as texts.
    float: float,
    int: int,
    Any: lambda value: value,
}
