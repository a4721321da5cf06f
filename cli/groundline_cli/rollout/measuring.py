"""Measurement of a release, and of the one before beside it: both get the same questions, in turn."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, Self

import httpx
from groundline_client import ApiError, AsyncClient, GatewayError

from groundline_cli.connection import Connection
from groundline_cli.evaluation.answers import Outcome
from groundline_cli.evaluation.asking import RankedDocuments, search_all
from groundline_cli.evaluation.comparing import Baseline
from groundline_cli.evaluation.figures import ANSWERS
from groundline_cli.evaluation.results import Evaluation
from groundline_cli.evaluation.sets import DatasetError, EvaluationSet, Query

SEARCHES: Final = "searches"
"""Group of the figures of searches as the collection's own settings make them."""

type Kind = Literal["searches", "answers"]
KINDS: Final[tuple[Kind, ...]] = (SEARCHES, ANSWERS)

type Seconds = Mapping[Kind, Sequence[float | None]]
"""Durations of the requests of each kind, in the order in which they were asked; None: it failed."""


@dataclass(frozen=True, slots=True)
class Before:
    """Figures of the release before."""

    baseline: Baseline
    seconds: Seconds
    degraded: int = 0
    failures: int = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `Release.save` has written. Raises DatasetError."""
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            seconds: Seconds = {kind: list(saved["seconds"][kind]) for kind in KINDS}
            degraded = int(saved["degraded"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{path}: not what --save writes ({type(error).__name__})") from error
        return cls(Baseline.read(path), seconds, degraded)


@dataclass(slots=True)
class Release:
    """A release that is asked: what it found, how long it took, and how often it failed."""

    client: AsyncClient
    dataset: EvaluationSet
    collection: str
    failures: Counter[str]
    """Numbers of failures by reason; those that a client's retry makes good again count, too."""
    limited: int = 0
    """Number of requests that were refused because the key was over its limits."""
    rankings: dict[str, RankedDocuments] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: dict[Kind, list[float | None]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @classmethod
    def at(
        cls, connection: Connection, dataset: EvaluationSet, collection: str, *, timeout_seconds: float
    ) -> Self:
        """Return a release to be asked at a gateway; a request that takes longer has failed."""
        failures = Counter[str]()
        client = AsyncClient(
            connection.gateway,
            connection.api_key,
            timeout_seconds=timeout_seconds,
            transport=_CountingTransport(failures),
        )
        return cls(client, dataset, collection, failures)

    @property
    def answered(self) -> int:
        """Number of requests that were answered."""
        return sum(one is not None for kind in KINDS for one in self.seconds[kind])

    @property
    def degraded(self) -> int:
        """Number of questions of which a part of the work was skipped, failed or came late."""
        found: list[RankedDocuments | Outcome] = [*self.rankings.values(), *self.outcomes.values()]
        return sum(one.degraded for one in found)

    @property
    def evaluation(self) -> Evaluation:
        """The figures of each question."""
        result = Evaluation.of(self.dataset, self.dataset.queries)
        result.add_rankings(SEARCHES, self.rankings, self.dataset)
        result.add_outcomes(self.outcomes, self.dataset)
        return result

    def as_before(self) -> Before:
        """Return what the next release is compared with."""
        return Before(Baseline.of(self.evaluation), self.seconds, self.degraded, self.failures.total())

    def save(self, path: Path) -> None:
        """Write what `Before.read` reads."""
        saved = {
            "degraded": self.degraded,
            "seconds": self.seconds,
            "records": self.evaluation.records_as_json(),
        }
        path.write_text(json.dumps(saved), encoding="utf-8")

    async def ask(self, kind: Kind, query: Query) -> None:
        """Search for a question or ask it; keep what came first, and every duration and failure."""
        with self._timed(kind):
            if kind == SEARCHES:
                found = await search_all(self.client, [query], self.collection, {})
                self.rankings = {**found, **self.rankings}
            else:
                response = await self.client.answer(query.text, collection_ids=[self.collection], store=False)
                self.outcomes.setdefault(query.query_id, Outcome.of(response))

    @contextmanager
    def _timed(self, kind: Kind) -> Iterator[None]:
        failed, begun = self.failures.total(), time.monotonic()
        try:
            yield
        except GatewayError as error:
            self.seconds[kind].append(None)
            if isinstance(error, ApiError) and error.http_status == HTTPStatus.TOO_MANY_REQUESTS:
                self.limited += 1
            elif self.failures.total() == failed:
                reason = error.reason if isinstance(error, ApiError) else ""
                self.failures[reason or type(error).__name__] += 1
        else:
            self.seconds[kind].append(time.monotonic() - begun)


class _CountingTransport(httpx.AsyncHTTPTransport):
    """A transport that counts failed attempts: the client makes some of them good by a retry."""

    def __init__(self, failures: Counter[str]) -> None:
        super().__init__()
        self._failures = failures

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises httpx.TransportError."""
        try:
            response = await super().handle_async_request(request)
        except httpx.TransportError as error:
            self._failures[type(error).__name__] += 1
            raise
        if response.is_server_error:
            self._failures[f"HTTP {response.status_code}"] += 1
        return response


async def measure(
    releases: Sequence[Release],
    questions: Sequence[tuple[Kind, Query]],
    *,
    max_failures: int,
    on_question: Callable[[], None] = lambda: None,
) -> None:
    """Ask every release each question before the next one, so that what disturbs one disturbs the others.

    It ends early when one has failed more often than it may.
    """
    # The first request connects, and may load a model.
    for release in releases:
        await release.ask(*questions[0])
        release.seconds[questions[0][0]].clear()
    for number, (kind, query) in enumerate(questions):
        if any(release.failures.total() > max_failures for release in releases):
            return
        for release in releases if number % 2 else reversed(releases):
            await release.ask(kind, query)
        on_question()
