"""Calls of a provider's HTTP API: transient failures are retried, each status has one meaning (extra
`http`)."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from groundline_runtime.context import remaining_seconds
from groundline_runtime.errors import (
    GroundlineError,
    InternalError,
    ResourceExhaustedError,
    UnavailableError,
)

FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Reasons:
    """Error reasons of an API's failures."""

    unreachable: str
    quota: str
    refused: str
    failed: str
    malformed: str


class ProviderApi:
    """An HTTP API; `name` stands for it in messages, such as "the rerank API".

    Transient failures (429, 5xx, a broken connection) are retried while the request's time allows, after
    twice the pause each time, or as long as the API asks for. Redirects are not followed: the key would go
    with them.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        name: str,
        reasons: Reasons,
        attempts: int,
        timeout_seconds: float,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_seconds
        )
        self._name = name
        self._reasons = reasons
        self._attempts = attempts

    async def post(self, path: str, body: Any) -> Any:
        """Post a body and return the JSON of the answer.

        Raises UnavailableError, ResourceExhaustedError, and InternalError if the API refuses the key, refuses
        the request as wrong, or does not answer JSON.
        """
        pause = FIRST_PAUSE_SECONDS
        for attempt in itertools.count(1):
            try:
                response = await self._http.post(path, json=body)
            except httpx.HTTPError:
                error: GroundlineError = UnavailableError(
                    self._reasons.unreachable, f"{self._name} cannot be reached"
                )
            else:
                if response.is_success:
                    try:
                        return response.json()
                    except ValueError:
                        raise self.malformed("JSON") from None
                error = self._refusal(response, pause)
            wait = min(error.retry_after_seconds or pause, LONGEST_PAUSE_SECONDS)
            left = remaining_seconds()
            passing = isinstance(error, UnavailableError | ResourceExhaustedError)
            if not passing or attempt >= self._attempts or (left is not None and wait >= left):
                raise error
            await asyncio.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def malformed(self, wanted: str) -> InternalError:
        """Return the error for an answer of another form."""
        return InternalError(self._reasons.malformed, f"{self._name}'s answer is not {wanted}")

    async def close(self) -> None:
        await self._http.aclose()

    def _refusal(self, response: httpx.Response, pause: float) -> GroundlineError:
        """Translate a status; the body is the provider's and may repeat texts, so it is not shown.

        A used-up quota that does not say when it is free again is worth `pause` seconds.
        """
        status, reasons = response.status_code, self._reasons
        if status == 429:
            return ResourceExhaustedError(
                reasons.quota,
                f"{self._name}'s quota is used up",
                retry_after_seconds=_retry_after(response) or pause,
            )
        if status in (401, 403):
            # The key is the suite's: the caller lacks no permission.
            return InternalError(
                reasons.refused,
                f"{self._name} does not accept the key; the operator has to correct it",
            )
        if status >= 500:
            return UnavailableError(
                reasons.failed,
                f"{self._name} answered {status}",
                retry_after_seconds=_retry_after(response),
            )
        return InternalError(
            reasons.refused, f"{self._name} answered {status}: is its address right, and the model known?"
        )


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(float(response.headers.get("retry-after", "")), 0.0)
    except ValueError:
        return None
