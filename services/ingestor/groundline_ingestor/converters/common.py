"""Checks and values that several messages share."""

import base64
import binascii
import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from groundline_runtime.errors import Violations

__all__ = [
    "MAX_NAME_CHARACTERS",
    "check_collection_id",
    "check_principals",
    "check_request_id",
    "check_text",
    "checked_uuid",
    "page_size",
    "page_token",
    "read_page_token",
    "struct_of",
    "timestamp",
    "values_of",
]

MAX_NAME_CHARACTERS: Final = 200
MAX_PAGE_SIZE: Final = 1000
MAX_PRINCIPALS: Final = 1000
MAX_PRINCIPAL_CHARACTERS: Final = 200
MAX_REQUEST_ID_CHARACTERS: Final = 64

_COLLECTION_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# Whole numbers up to here are exact in the doubles that a Struct holds.
_MAX_EXACT: Final = 2**53


def check_collection_id(collection_id: str, violations: Violations) -> None:
    """Add a collection id that is none."""
    if not _COLLECTION_ID.fullmatch(collection_id):
        violations.add(
            "collection_id",
            'must be 1 to 63 lower-case letters, digits, "_" and "-", and begin with a letter or digit',
        )


def checked_uuid(value: str, field: str, violations: Violations) -> str:
    """The id in its usual spelling; adds one that is no UUID."""
    try:
        return str(uuid.UUID(value))
    except ValueError:
        violations.add(field, "must be a UUID")
        return ""


def check_request_id(request_id: str, violations: Violations) -> None:
    """Add a request_id that is too long or cannot be stored."""
    check_text(request_id, "request_id", violations, most=MAX_REQUEST_ID_CHARACTERS)


def check_text(value: str, where: str, violations: Violations, *, most: int) -> None:
    """Add a text that is too long or holds NUL, which PostgreSQL cannot store."""
    if len(value) > most:
        violations.add(where, f"must be at most {most} characters")
    if "\x00" in value:
        violations.add(where, "must not hold NUL characters")


def check_principals(principals: Sequence[str], path: str, violations: Violations) -> None:
    """Add what is wrong with a list of principals."""
    if len(principals) > MAX_PRINCIPALS:
        violations.add(path, f"must hold at most {MAX_PRINCIPALS} principals")
        return
    for index, principal in enumerate(principals):
        if not 1 <= len(principal) <= MAX_PRINCIPAL_CHARACTERS:
            violations.add(f"{path}[{index}]", f"must be 1 to {MAX_PRINCIPAL_CHARACTERS} characters")
        elif not principal.isprintable() or any(map(str.isspace, principal)):
            violations.add(f"{path}[{index}]", "must not hold white space or control characters")


def page_size(value: int, default: int, violations: Violations) -> int:
    """Entries on a page; 0 is the default."""
    if not 0 <= value <= MAX_PAGE_SIZE:
        violations.add("page_size", f"must be from 1 to {MAX_PAGE_SIZE}, or 0 for {default}")
    return value or default


def page_token(kind: str, *key: str | int) -> str:
    """Where the next page of a list begins, opaque to clients."""
    return base64.urlsafe_b64encode(json.dumps([kind, *key]).encode()).decode().rstrip("=")


def read_page_token[Key](
    token: str, kind: str, types: tuple[type, ...], violations: Violations
) -> tuple[Any, ...] | None:
    """The key in a token of this kind of list; None without a token, or with a wrong one, which is added."""
    if not token:
        return None
    try:
        decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        decoded = None
    match decoded:
        case [str(found), *key] if (
            found == kind and tuple(map(type, key)) == types and "\x00" not in str(key)
        ):
            return tuple(key)
    violations.add("page_token", "is not a token that this list returned")
    return None


def timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def values_of(struct: Struct, path: str, violations: Violations) -> dict[str, Any]:
    """A Struct as JSON values, whole numbers as ints; adds what JSON or PostgreSQL cannot hold."""
    return {
        _checked(key, path, violations): _plain(value, f"{path}.{key[:50]}", violations)
        for key, value in struct.fields.items()
    }


def struct_of(values: Mapping[str, Any]) -> Struct:
    struct = Struct()
    struct.update(values)
    return struct


def _plain(value: Value, path: str, violations: Violations) -> Any:
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            if not math.isfinite(number):
                violations.add(path, "must be a finite number")
            elif number.is_integer() and abs(number) <= _MAX_EXACT:
                return int(number)
            return number
        case "string_value":
            return _checked(value.string_value, path, violations)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return values_of(value.struct_value, path, violations)
        case "list_value":
            return [
                _plain(one, f"{path}[{index}]", violations)
                for index, one in enumerate(value.list_value.values)
            ]
        case _:
            return None


def _checked(text: str, path: str, violations: Violations) -> str:
    if "\x00" in text:
        violations.add(path, "must not hold NUL characters")
    return text
