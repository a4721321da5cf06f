"""Compiles a message type, by its descriptor and the limits on its fields, to functions that find violations.

A type is compiled once. Checking a message visits what is set in it, so small requests cost microseconds.
"""

import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from groundline.v1 import limits_pb2
from groundline_filters import FilterError, parse, parse_json, plain
from groundline_runtime.errors import Violations

from groundline_validation.rules import rules_of

__all__ = ["limits_of", "validate", "violations_of"]

MAX_NAMED_ENTRIES = 100
"""Entries of one list whose violations are named: a list of a million wrong ones gets no million of them."""

MAX_CHUNK_ID = 2**63 - 1

type Check = Callable[[Any, str, Violations], None]
"""Looks at a value, whose path in the request is given, and adds what is wrong with it."""

_COLLECTION_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_CHUNK_ID = re.compile(r"0|[1-9][0-9]{0,18}")
_LANGUAGE = re.compile(r"[a-z]{2,30}")
_POSITION = re.compile(r"[0-7][0-9a-f]{15}")
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KEY_CHARACTERS = 50
"""Of a map's key or a Struct's member that are repeated in a path."""

_NUMBERS = frozenset(
    {
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_FLOAT,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_FIXED64,
    }
)
_FLOAT = struct.Struct("2f")
_FLOATS = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


def validate(message: Message) -> None:
    """Raises InvalidArgumentError (INVALID_REQUEST) that names every wrong field."""
    violations_of(message).raise_if_any()


def violations_of(message: Message, path: str = "") -> Violations:
    """What is wrong with a message; `path` begins the paths of its fields, such as "settings"."""
    violations = Violations()
    _compiled(message.DESCRIPTOR)(message, f"{path}." if path else "", violations)
    return violations


def limits_of(message: type[Message], field: str) -> limits_pb2.Limits:
    """The limits that the contract states for a field; for code that has to stay within them."""
    return _limits(message.DESCRIPTOR.fields_by_name[field])


@cache
def _compiled(descriptor: Descriptor) -> Check:
    """Checks a message of this type; the path it is given ends with "." unless it is empty."""
    checks: dict[str, Check] = {}
    always: list[tuple[str, Check]] = []
    for field in descriptor.fields:
        check = _field_check(field)
        if check is None:
            continue
        if _is_required(field):
            always.append((field.name, check))
        else:
            checks[field.name] = check
    rules = rules_of(descriptor.full_name)

    def run(message: Any, prefix: str, violations: Violations) -> None:
        for name, required in always:
            required(getattr(message, name), prefix + name, violations)
        for field, value in message.ListFields():
            check = checks.get(field.name)
            if check is not None:
                check(value, prefix + field.name, violations)
        for find in rules:
            for name, description in find(message):
                violations.add((prefix + name).rstrip("."), description)

    return run


def _limits(field: Any) -> limits_pb2.Limits:
    limits: limits_pb2.Limits = field.GetOptions().Extensions[limits_pb2.limits]
    return limits


def _is_required(field: FieldDescriptor) -> bool:
    """Whether an empty value, which ListFields leaves out, is wrong."""
    limits = _limits(field)
    if field.is_repeated:
        return limits.min_items > 0
    if field.enum_type is not None:
        return limits.minimum > 0
    return limits.min_length > 0 and not field.has_presence


def _field_check(field: FieldDescriptor) -> Check | None:
    """None where nothing can be wrong."""
    limits = _limits(field)
    if _is_map(field):
        assert field.message_type is not None
        return _map_check(_value_check(field.message_type.fields_by_name["value"], limits), limits)
    check = _value_check(field, limits)
    if not field.is_repeated:
        return check
    return _list_check(check, limits, _all_right(field, limits))


def _value_check(field: FieldDescriptor, limits: limits_pb2.Limits) -> Check | None:
    if field.message_type is not None:
        return _message_check(field.message_type, limits)
    if field.enum_type is not None:
        return _enum_check(field.enum_type, limits)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text_check(limits)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _bytes_check(limits)
    if field.type in _NUMBERS:
        return _number_check(limits, field.type)
    return None


def _message_check(descriptor: Descriptor, limits: limits_pb2.Limits) -> Check | None:
    if descriptor.full_name == Struct.DESCRIPTOR.full_name:
        return _struct_check(limits)
    if descriptor.full_name.startswith("google."):
        return None

    def run(message: Any, path: str, violations: Violations) -> None:
        _compiled(descriptor)(message, f"{path}.", violations)

    return run


def _list_check(
    check: Check | None, limits: limits_pb2.Limits, all_right: Callable[[list[Any]], bool] | None = None
) -> Check | None:
    """`all_right` tells of a whole list, quickly, that no entry is wrong."""
    least, most = limits.min_items, limits.max_items if limits.HasField("max_items") else None
    if check is None and not least and most is None:
        return None

    def run(values: Any, path: str, violations: Violations) -> None:
        if len(values) < least or (most is not None and len(values) > most):
            violations.add(path, f"must have {_range(least, most)} entries, has {len(values)}")
        if check is None or (all_right is not None and all_right(values[:])):
            return
        found = Violations()
        for index, value in enumerate(values if most is None else values[:most]):
            check(value, f"{path}[{index}]", found)
            if len(found) >= MAX_NAMED_ENTRIES:
                break
        violations.extend(found)

    return run


def _all_right(field: FieldDescriptor, limits: limits_pb2.Limits) -> Callable[[Any], bool] | None:
    """What tells of a list of numbers or of an enum's values that no entry is wrong; None for other lists.

    It is given a Python list: iterating over protobuf's own is several times slower.
    """
    if field.enum_type is not None:
        return _known_values(field.enum_type, limits).issuperset
    if field.type not in _NUMBERS:
        return None
    low = limits.minimum if limits.HasField("minimum") else -math.inf
    high = limits.maximum if limits.HasField("maximum") else math.inf

    def run(values: list[Any]) -> bool:
        # The sum is not finite where an entry is not, and min and max tell nothing of NaN.
        return not values or (min(values) >= low and max(values) <= high and math.isfinite(sum(values)))

    return run


def _map_check(check: Check | None, limits: limits_pb2.Limits) -> Check:
    allowed, most = tuple(limits.allowed_values), limits.max_items if limits.HasField("max_items") else None

    def run(values: Mapping[Any, Any], path: str, violations: Violations) -> None:
        if most is not None and len(values) > most:
            violations.add(path, f"must have at most {most} entries, has {len(values)}")
            return
        for position, key in enumerate(sorted(values)):
            if position >= MAX_NAMED_ENTRIES:
                break
            where = f'{path}["{str(key)[:_KEY_CHARACTERS]}"]'
            if allowed and key not in allowed:
                violations.add(where, f"must be one of {', '.join(allowed)}")
            elif check is not None:
                check(values[key], where, violations)

    return run


def _known_values(enum: EnumDescriptor, limits: limits_pb2.Limits) -> frozenset[int]:
    return frozenset(number for number in enum.values_by_number if number >= limits.minimum)


def _enum_check(enum: EnumDescriptor, limits: limits_pb2.Limits) -> Check:
    known = _known_values(enum, limits)
    names = ", ".join(name for name, value in enum.values_by_name.items() if value.number >= limits.minimum)

    def run(value: int, path: str, violations: Violations) -> None:
        if value not in known:
            violations.add(path, f"must be one of {names}")

    return run


def _number_check(limits: limits_pb2.Limits, kind: int) -> Check | None:
    low = limits.minimum if limits.HasField("minimum") else -math.inf
    high = limits.maximum if limits.HasField("maximum") else math.inf
    if kind == FieldDescriptor.TYPE_FLOAT:  # a limit that 32 bits cannot hold is itself within the limit
        low, high = _FLOAT.unpack(_FLOAT.pack(low, high))
    if kind not in _FLOATS and (low, high) == (-math.inf, math.inf):
        return None
    if (low, high) == (-math.inf, math.inf):
        description = "must be a finite number"
    elif high == math.inf:
        description = f"must be {low:g} or more"
    elif low == -math.inf:
        description = f"must be {high:g} or less"
    else:
        description = f"must be from {low:g} to {high:g}"

    def run(value: float, path: str, violations: Violations) -> None:
        if not (low <= value <= high and math.isfinite(value)):
            violations.add(path, f"{description}, is {value:g}")

    return run


def _text_check(limits: limits_pb2.Limits) -> Check:
    least, most = limits.min_length, limits.max_length if limits.HasField("max_length") else None
    most_bytes = limits.max_bytes if limits.HasField("max_bytes") else None
    allowed, nul_allowed = frozenset(limits.allowed_values), limits.allow_nul
    format_check = _TEXT_FORMATS.get(limits.text_format)

    def run(text: str, path: str, violations: Violations) -> None:
        length = len(text.strip()) if least else len(text)
        if length < least or (most is not None and length > most):
            violations.add(path, f"must have {_range(least, most)} characters, has {length}")
        if not nul_allowed and "\0" in text:
            violations.add(path, "must not contain the character U+0000")
        if most_bytes is not None and len(text.encode()) > most_bytes:
            violations.add(path, f"must have at most {most_bytes} bytes of UTF-8")
        if allowed and text not in allowed:
            violations.add(path, f"must be one of {', '.join(sorted(allowed))}")
        if format_check is not None and (text or not least):
            format_check(text, path, violations)

    return run


def _bytes_check(limits: limits_pb2.Limits) -> Check | None:
    if not limits.HasField("max_bytes"):
        return None
    most = limits.max_bytes

    def run(data: bytes, path: str, violations: Violations) -> None:
        if len(data) > most:
            violations.add(path, f"must have at most {most} bytes, has {len(data)}")

    return run


def _matches(pattern: re.Pattern[str], description: str) -> Check:
    def run(text: str, path: str, violations: Violations) -> None:
        if not pattern.fullmatch(text):
            violations.add(path, description)

    return run


def _is_uuid(text: str, path: str, violations: Violations) -> None:
    try:
        parsed = str(uuid.UUID(text))
    except ValueError:
        parsed = ""
    if parsed != text.lower():  # uuid takes braces, "urn:uuid:" and missing hyphens as well
        violations.add(path, "must be a UUID")


def _is_chunk_id(text: str, path: str, violations: Violations) -> None:
    if not _CHUNK_ID.fullmatch(text) or int(text) > MAX_CHUNK_ID:
        violations.add(path, "must be a chunk id")


def _is_principal(text: str, path: str, violations: Violations) -> None:
    if not 1 <= len(text) <= 200:
        violations.add(path, f"must have 1 to 200 characters, has {len(text)}")
    elif not text.isprintable() or any(map(str.isspace, text)):
        violations.add(path, "must not contain white space or control characters")


def _is_filter(text: str, path: str, violations: Violations) -> None:
    _find_problems(parse_json, text, path, violations)


_TEXT_FORMATS: Mapping[int, Check] = {
    limits_pb2.TEXT_FORMAT_COLLECTION_ID: _matches(
        _COLLECTION_ID,
        'must have 1 to 63 lower-case letters, digits, "_" and "-", beginning with a letter or digit',
    ),
    limits_pb2.TEXT_FORMAT_UUID: _is_uuid,
    limits_pb2.TEXT_FORMAT_CHUNK_ID: _is_chunk_id,
    limits_pb2.TEXT_FORMAT_PRINCIPAL: _is_principal,
    limits_pb2.TEXT_FORMAT_FILTER: _is_filter,
    limits_pb2.TEXT_FORMAT_LANGUAGE: _matches(
        _LANGUAGE, "must be a language's English name in lower case, or simple"
    ),
    limits_pb2.TEXT_FORMAT_POSITION: _matches(_POSITION, "must be a position that a job carried"),
    limits_pb2.TEXT_FORMAT_SECRET_NAME: _matches(
        _SECRET_NAME,
        'must have 1 to 100 letters, digits, ".", "_" and "-", beginning with a letter or digit',
    ),
}


def _struct_check(limits: limits_pb2.Limits) -> Check | None:
    most_bytes = limits.max_bytes if limits.HasField("max_bytes") else None
    if limits.struct_format == limits_pb2.STRUCT_FORMAT_FILTER:
        return _check_filter
    if limits.struct_format != limits_pb2.STRUCT_FORMAT_JSON:
        return None

    def run(struct: Struct, path: str, violations: Violations) -> None:
        wrong = len(violations)
        for where, description in _json_problems(struct, path):
            violations.add(where, description)
            if len(violations) - wrong >= MAX_NAMED_ENTRIES:
                return
        if most_bytes is None or len(violations) > wrong or struct.ByteSize() * 2 < most_bytes:
            return  # of JSON there is less than twice what there is of the message
        if len(json.dumps(plain(struct), ensure_ascii=False).encode()) > most_bytes:
            violations.add(path, f"must have at most {most_bytes} bytes as JSON")

    return run


def _check_filter(struct: Struct, path: str, violations: Violations) -> None:
    _find_problems(parse, plain(struct), path, violations)


def _find_problems(parser: Callable[..., Any], given: Any, path: str, violations: Violations) -> None:
    try:
        parser(given, path=path)
    except FilterError as error:
        for problem in error.problems[:MAX_NAMED_ENTRIES]:
            violations.add(problem.path, problem.description)


def _json_problems(struct: Struct, path: str) -> Iterator[tuple[str, str]]:
    for name, value in struct.fields.items():
        where = f"{path}.{name[:_KEY_CHARACTERS]}"
        if "\0" in name:
            yield where, "must not contain the character U+0000"
        yield from _value_problems(value, where)


def _value_problems(value: Value, path: str) -> Iterable[tuple[str, str]]:
    match value.WhichOneof("kind"):
        case "number_value":
            if not math.isfinite(value.number_value):
                yield path, "must be a finite number"
        case "string_value":
            if "\0" in value.string_value:
                yield path, "must not contain the character U+0000"
        case "struct_value":
            yield from _json_problems(value.struct_value, path)
        case "list_value":
            for index, one in enumerate(value.list_value.values):
                yield from _value_problems(one, f"{path}[{index}]")


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return f"{least} to {most}" if least else f"at most {most}"


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
