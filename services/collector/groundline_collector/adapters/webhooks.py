"""Notices to webhooks over httpx, to checked addresses."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from typing import Final
from urllib.parse import urlsplit

from groundline.v1 import collector_service_pb2 as pb
from groundline_runtime.errors import FailedPreconditionError

from groundline_collector.adapters.addresses import AddressNotAllowedError, is_public, resolve
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.ports import UndeliveredError

ATTEMPT_SECONDS: Final = 15.0
KEY_PREFIX: Final = "whsec_"
MIN_KEY_BYTES: Final = 24
MAX_KEY_BYTES: Final = 64


class WebhookSender:
    """Sender of notices over HTTP. It follows no redirect, and reads only the status of the response."""

    def __init__(self, secrets: Secrets, *, private_addresses: bool) -> None:
        """Take the secrets. `private_addresses`: whether collections may allow them."""
        self._secrets = secrets
        self._private_addresses = private_addresses

    async def send(self, notice: pb.SendNoticeRequest) -> None:
        """Send a notice once. Raises UndeliveredError."""
        # Loaded only if used: an HTTP client takes some 15 MiB.
        import httpx

        from groundline_collector.adapters.transport import PinnedTransport

        headers = self._headers(notice)
        is_private_allowed = notice.private_addresses and self._private_addresses
        transport = PinnedTransport(resolve, lambda address: is_private_allowed or is_public(address))
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client,  # noqa: S113
                client.stream("POST", notice.url, content=notice.body.encode(), headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise UndeliveredError(f"the answer was HTTP {answer.status_code}")
        except AddressNotAllowedError as error:
            raise UndeliveredError(str(error)) from None
        except TimeoutError:
            raise UndeliveredError(f"there was no answer within {ATTEMPT_SECONDS:.0f} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise UndeliveredError(f"no connection, or it broke: {type(error).__name__}") from None

    def _headers(self, notice: pb.SendNoticeRequest) -> dict[str, str]:
        seconds = int(time.time())
        try:
            key = signing_key(
                self._secrets.read(notice.collection_id, notice.secret, urlsplit(notice.url).hostname)
            )
        except FailedPreconditionError as error:
            raise UndeliveredError(error.message) from None
        except ValueError as error:
            raise UndeliveredError(f"the secret {notice.secret!r} {error}") from None
        return {
            "Content-Type": "application/json",
            "User-Agent": "groundline",
            "webhook-id": notice.notice_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature_of(key, notice.notice_id, seconds, notice.body),
        }


def signing_key(secret: str) -> bytes:
    """Return the key in a secret's text. Raises ValueError, which does not show it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"must be {KEY_PREFIX} and {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes in base64")
    return key


def signature_of(key: bytes, notice_id: str, seconds: int, body: str) -> str:
    """Return the header webhook-signature of a notice sent at `seconds` since 1970, as Standard Webhooks has
    it."""
    signed = f"{notice_id}.{seconds}.{body}".encode()
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
