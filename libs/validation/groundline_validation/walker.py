"""Compiler of message types, by their descriptors and the limits on their fields, to functions that find
violations.

A type is compiled once. A check visits only the fields that are set, so small requests cost microseconds.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from groundline.v1 import limits_pb2
from groundline_filters import FilterError, parse, parse_json, plain
from groundline_runtime.errors import InvalidArgumentError, Violations

from groundline_validation.rules import rules_of

MAX_NAMED_ENTRIES: Final = 100
"""Maximum number of entries of one list whose violations are named, however many are wrong."""

MAX_CHUNK_ID: Final = 2**63 - 1

type Check = Callable[[Any, str, Violations], None]
"""Adds the violations of a value, whose path in the request is given."""

_LIST_AND_FORMAT: Final = frozenset({"min_items", "max_items", "text_format"})
_KEY_CHARACTERS: Final = 50
"""Maximum number of characters of a map's key or a Struct's member that a path repeats."""

_NUMBERS: Final = frozenset(
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
_FLOAT: Final = struct.Struct("2f")
_FLOATS: Final = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


def validate(message: Message) -> None:
    """Raise InvalidArgumentError (INVALID_REQUEST), naming every wrong field, unless the message is valid."""
    if found := violations_of(message):
        raise InvalidArgumentError(found)


def violations_of(message: Message, path: str = "") -> Violations:
    """Return the violations of a message; `path` begins the paths of its fields, such as "settings"."""
    violations = Violations()
    _compiled(message.DESCRIPTOR)(message, f"{path}." if path else "", violations)
    return violations


@cache
def _compiled(descriptor: Descriptor) -> Check:
    """Return the check of a message type; its path ends with "." unless it is empty."""
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
    """Tell whether an empty value, which ListFields leaves out, is wrong."""
    limits = _limits(field)
    if field.is_repeated:
        return limits.min_items > 0
    if field.enum_type is not None:
        return limits.minimum > 0
    return limits.min_length > 0 and not field.has_presence


def _field_check(field: FieldDescriptor) -> Check | None:
    """Return the check of a field; None if no value can be wrong."""
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
    """Return the check of a list; `all_right` tells quickly whether no entry of it is wrong."""
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
    """Return a quick test of whether no entry of a list is wrong; None for a list that has none.

    It is given a Python list: iterating over protobuf's own is several times slower.
    """
    if field.enum_type is not None:
        return _known_values(field.enum_type, limits).issuperset
    if field.type == FieldDescriptor.TYPE_STRING:
        stated = {option.name for option, _ in limits.ListFields()}
        return _are_of_format(limits.text_format) if stated <= _LIST_AND_FORMAT else None
    if field.type not in _NUMBERS:
        return None
    low = limits.minimum if limits.HasField("minimum") else -math.inf
    high = limits.maximum if limits.HasField("maximum") else math.inf

    def run(values: list[Any]) -> bool:
        # The sum is not finite where an entry is not; min and max may miss NaN.
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


def _shown(number: float) -> str:
    """Return a number as a person writes it: all digits of a whole one, six of another."""
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:g}"


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
        description = f"must be {_shown(low)} or more"
    elif low == -math.inf:
        description = f"must be {_shown(high)} or less"
    else:
        description = f"must be from {_shown(low)} to {_shown(high)}"

    def run(value: float, path: str, violations: Violations) -> None:
        if not (low <= value <= high and math.isfinite(value)):
            violations.add(path, f"{description}, is {_shown(value)}")

    return run


def _text_check(limits: limits_pb2.Limits) -> Check:
    least, most = limits.min_length, limits.max_length if limits.HasField("max_length") else None
    most_bytes = limits.max_bytes if limits.HasField("max_bytes") else None
    allowed, nul_allowed = frozenset(limits.allowed_values), limits.allow_nul
    format_check = _format_check(limits.text_format)

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


_BEYOND_PATTERN: Final[Mapping[int, Callable[[str], bool]]] = {
    limits_pb2.TEXT_FORMAT_CHUNK_ID: lambda text: int(text) <= MAX_CHUNK_ID,
    limits_pb2.TEXT_FORMAT_PRINCIPAL: str.isprintable,
}
"""Further requirements of text formats besides their patterns."""


def _format_check(text_format: limits_pb2.TextFormat.ValueType) -> Check | None:
    """Return the check of a text format; None if it allows any text."""
    if text_format == limits_pb2.TEXT_FORMAT_FILTER:
        return lambda text, path, violations: _find_problems(parse_json, text, path, violations)
    are_right = _are_of_format(text_format)
    if are_right is None:
        return None
    requirement = _text_rule(text_format).requirement

    def run(text: str, path: str, violations: Violations) -> None:
        if not are_right((text,)):
            violations.add(path, requirement)

    return run


def has_format(text: str, text_format: limits_pb2.TextFormat.ValueType) -> bool:
    """Tell whether a text that is in no message yet has a format of the contract."""
    are_right = _are_of_format(text_format)
    assert are_right is not None, "its pattern decides alone"
    return are_right((text,))


@cache
def _are_of_format(text_format: limits_pb2.TextFormat.ValueType) -> Callable[[Iterable[str]], bool] | None:
    """Return a test of whether all texts have a format; None if more than the format decides that."""
    if text_format in (limits_pb2.TEXT_FORMAT_UNSPECIFIED, limits_pb2.TEXT_FORMAT_FILTER):
        return None
    matches, beyond = re.compile(_text_rule(text_format).pattern).fullmatch, _BEYOND_PATTERN.get(text_format)
    if beyond is None:
        return lambda texts: all(map(matches, texts))
    return lambda texts: all(matches(text) and beyond(text) for text in texts)


def _text_rule(text_format: limits_pb2.TextFormat.ValueType) -> limits_pb2.TextRule:
    options = limits_pb2.TextFormat.DESCRIPTOR.values_by_number[text_format].GetOptions()
    rule: limits_pb2.TextRule = options.Extensions[limits_pb2.text]
    return rule


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
            return  # as JSON a Struct is less than twice as long
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
