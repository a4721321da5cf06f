"""Pages of lists: their size, and tokens of where the next begins."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from groundline_contracts import default_of

from groundline_runtime.context import Caller
from groundline_runtime.errors import FieldViolation, InvalidArgumentError

MAX_PAGE_SIZE: Final = 1000
MIN_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
_NOT_ASKED_FOR: Final = ("page_size", "page_token")
"""Fields that may change from page to page."""


def page_size(request: Message) -> int:
    """Return the number of entries on a page: the contract's default for 0, at most MAX_PAGE_SIZE."""
    asked: int = request.page_size  # type: ignore[attr-defined]  # every request for a page has it
    return min(asked or default_of(type(request), "page_size"), MAX_PAGE_SIZE)


class PageTokens:
    """Tokens of where the next page of a list begins, signed: a token is valid only for the same caller's
    same request.

    All replicas of a service need one key. HMAC-SHA-256, cut to 128 bits as RFC 2104 (section 5) allows.
    """

    def __init__(self, key: bytes) -> None:
        """Take the key. Raises ValueError for one below MIN_KEY_BYTES."""
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a key of page tokens has at least {MIN_KEY_BYTES} bytes")
        self._key = key

    def next_of(self, request: Message, caller: Caller, *key: str | int) -> str:
        """Return the opaque token of the page that begins behind this entry of the list."""
        payload = json.dumps(key).encode()
        signed = self._signature(request, caller, payload) + payload
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def page_of[T](
        self, request: Message, caller: Caller, found: Sequence[T], key: Callable[[T], Sequence[str | int]]
    ) -> tuple[Sequence[T], str]:
        """Return the entries of a page, and the token of the next one; "" on the last.

        `found` holds the page, and one entry more unless it is the last; `key` tells what a token says of an
        entry.
        """
        size = page_size(request)
        if len(found) <= size:
            return found, ""
        return found[:size], self.next_of(request, caller, *key(found[size - 1]))

    def key_in(self, request: Message, caller: Caller) -> tuple[Any, ...] | None:
        """Return the entry that a request's page begins behind; None on the first page.

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
        # Each part with its length, so that no two lists of parts have the same bytes.
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self._key, text, hashlib.sha256)[:_SIGNATURE_BYTES]
