"""Pages of lists: how large one is, and where the next begins."""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any, Final

from google.protobuf.message import Message

from groundline_runtime.context import Caller
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

__all__ = ["MAX_PAGE_SIZE", "PageTokens", "page_size"]

MAX_PAGE_SIZE: Final = 1000
MIN_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
_NOT_ASKED_FOR: Final = ("page_size", "page_token")
"""Fields that may change from page to page."""


def page_size(value: int, default: int) -> int:
    """Entries on a page: `default` for 0, and never more than MAX_PAGE_SIZE."""
    return min(value or default, MAX_PAGE_SIZE)


class PageTokens:
    """Where the next page of a list begins, signed: a token is good for the same caller's same request only.

    All replicas of a service need one key. HMAC-SHA-256, cut to 128 bits as RFC 2104 (section 5) allows.
    """

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key below MIN_KEY_BYTES."""
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a key of page tokens has at least {MIN_KEY_BYTES} bytes")
        self._key = key

    def next_of(self, request: Message, caller: Caller, *place: str | int) -> str:
        """The token of the page that begins behind this place in the list; opaque."""
        payload = json.dumps(place).encode()
        signed = self._signature(request, caller, payload) + payload
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def place_in(self, request: Message, caller: Caller) -> tuple[Any, ...] | None:
        """The place that a request's page begins behind; None on the first page.

        Raises InvalidArgumentError for a token that no list has made for this caller and request.
        """
        token: str = request.page_token  # type: ignore[attr-defined]  # every request for a page has it
        if not token:
            return None
        try:
            signed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            signed = b""
        signature, payload = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if hmac.compare_digest(signature, self._signature(request, caller, payload)):
            return tuple(json.loads(payload))
        wrong = "is not a token that this list returned to you; begin again without one"
        raise InvalidArgumentError([FieldViolation("page_token", wrong)])

    def _signature(self, request: Message, caller: Caller, payload: bytes) -> bytes:
        asked = type(request)()
        asked.CopyFrom(request)
        for name in _NOT_ASKED_FOR:
            asked.ClearField(name)
        parts = (
            request.DESCRIPTOR.full_name.encode(),
            caller.owner.encode(),
            asked.SerializeToString(deterministic=True),
            payload,
        )
        # Each with its length, so that no two lists of parts have the same bytes.
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, text, hashlib.sha256)[:_SIGNATURE_BYTES]
