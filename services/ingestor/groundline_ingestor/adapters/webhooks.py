"""Notices to webhooks over httpx, to addresses that were checked."""

import asyncio
import time
from pathlib import Path
from typing import Final

import httpx
from groundline_runtime.errors import FailedPreconditionError

from groundline_ingestor.adapters.addresses import (
    AddressNotAllowedError,
    PinnedTransport,
    is_public,
    resolve,
)
from groundline_ingestor.adapters.sources.common import Secrets
from groundline_ingestor.domain.webhooks import Delivery, signature_of, signing_key
from groundline_ingestor.ports import NotDeliveredError

__all__ = ["HttpWebhookSender"]

ATTEMPT_SECONDS: Final = 15.0


class HttpWebhookSender:
    """Implements WebhookSender. No redirect is followed, and of the answer only the status is read."""

    def __init__(self, secrets_directory: Path | None, *, allow_private_addresses: bool) -> None:
        """`allow_private_addresses`: whether collections may allow them."""
        self._secrets = Secrets(secrets_directory)
        self._allow_private_addresses = allow_private_addresses

    async def send(self, delivery: Delivery) -> None:
        headers = self._headers(delivery)
        is_private_allowed = delivery.private_addresses and self._allow_private_addresses
        transport = PinnedTransport(resolve, lambda address: is_private_allowed or is_public(address))
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client,  # noqa: S113
                client.stream(
                    "POST", delivery.url, content=delivery.body.encode(), headers=headers
                ) as answer,
            ):
                if not answer.is_success:
                    raise NotDeliveredError(f"the answer was HTTP {answer.status_code}")
        except AddressNotAllowedError as error:
            raise NotDeliveredError(str(error)) from None
        except TimeoutError:
            raise NotDeliveredError(f"there was no answer within {ATTEMPT_SECONDS:.0f} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise NotDeliveredError(f"no connection, or it broke: {type(error).__name__}") from None

    def _headers(self, delivery: Delivery) -> dict[str, str]:
        seconds = int(time.time())
        try:
            key = signing_key(self._secrets.read(delivery.collection_id, delivery.secret))
        except FailedPreconditionError as error:
            raise NotDeliveredError(error.message) from None
        except ValueError as error:
            raise NotDeliveredError(f"the secret {delivery.secret!r} {error}") from None
        return {
            "Content-Type": "application/json",
            "User-Agent": "groundline",
            "webhook-id": delivery.delivery_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature_of(key, delivery.delivery_id, seconds, delivery.body),
        }
