"""Pages of lists: how large one is, and where the next begins."""

import base64
import binascii
import json
from typing import Any, Final

from groundline_runtime.errors import FieldViolation, InvalidArgumentError

__all__ = ["MAX_PAGE_SIZE", "page_size", "page_token", "read_page_token"]

MAX_PAGE_SIZE: Final = 1000
_MAX_INTEGER: Final = 2**31 - 1
"""The largest that PostgreSQL's integer holds."""


def page_size(value: int, default: int) -> int:
    """Entries on a page: `default` for 0, and never more than MAX_PAGE_SIZE."""
    return min(value or default, MAX_PAGE_SIZE)


def page_token(kind: str, *key: str | int) -> str:
    """Where the next page begins in a list of this kind, behind the entry with this key; opaque."""
    return base64.urlsafe_b64encode(json.dumps([kind, *key]).encode()).decode().rstrip("=")


def read_page_token(token: str, kind: str, *types: type) -> tuple[Any, ...] | None:
    """The key in a token, whose parts are of `types`; None for an empty token.

    Raises InvalidArgumentError for a token that no list of this kind returned.
    """
    if not token:
        return None
    try:
        decoded = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        decoded = None
    match decoded:
        case [str(found), *key] if found == kind and tuple(map(type, key)) == types:
            if all(map(_is_storable, key)):
                return tuple(key)
    raise InvalidArgumentError([FieldViolation("page_token", "is not a token that this list returned")])


def _is_storable(part: str | int) -> bool:
    """Whether PostgreSQL can compare it: tokens are not signed, so anyone may have written it."""
    if isinstance(part, int):
        return 0 <= part <= _MAX_INTEGER
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in part)
