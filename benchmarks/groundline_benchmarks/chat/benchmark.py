"""`groundline bench chat`: answers without a model and with one of known speed, a suite for each."""

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from groundline_cli.evaluation.sets import EvaluationSet, Query
from groundline_client import AsyncClient, JsonObject

from groundline_benchmarks.chat.cancellation import Cancellation, measure_cancellation
from groundline_benchmarks.chat.latency import OVERHEAD, Latency, measure_latency
from groundline_benchmarks.chat.memory import MemoryGrowth, measure_memory
from groundline_benchmarks.chat.provider import Provider, serving_provider
from groundline_benchmarks.chat.quality import (
    AnswerQuality,
    known_answers,
    load_collection,
    measure_quality,
    spread,
)
from groundline_benchmarks.chat.streams import StreamStep, measure_streams, sustained
from groundline_benchmarks.measuring.databases import suite_database
from groundline_benchmarks.measuring.goals import Goal, goals_as_json
from groundline_benchmarks.measuring.load import services_to_postgres
from groundline_benchmarks.measuring.running import Report
from groundline_benchmarks.measuring.suite import Suite, started_suite

EXTRACTIVE: Final = "extractive"
"""Provider that needs no model."""

_LATENCY_COLLECTION: Final = "bench"
_CONCURRENCY: Final = 4
_MEMORY_CONCURRENCY: Final = 8
_REPORT_EVERY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class EvaluationInput:
    """An evaluation set and the lexical language of its text."""

    directory: Path
    language: str


@dataclass(slots=True)
class ChatFigures:
    """Figures by provider, and by set."""

    latency: dict[str, Latency] = field(default_factory=dict)
    streams: list[StreamStep] = field(default_factory=list)
    cancellation: Cancellation | None = None
    memory: dict[str, MemoryGrowth] = field(default_factory=dict)
    quality: dict[str, AnswerQuality] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for programs."""
        return {
            **asdict(self),
            "sustainedStreams": sustained(self.streams),
            "definitions": {"overhead": OVERHEAD},
            "goals": goals_as_json(self.goals()),
        }

    def goals(self) -> list[Goal]:
        """Return the goals of these figures."""
        found = [
            Goal(f"{provider}: overhead on the first delta, ms", one.overhead[0], 8)
            for provider, one in self.latency.items()
        ]
        if (extractive := self.latency.get(EXTRACTIVE)) is not None:
            name = "one extractive answer: processor time of all services / PostgreSQL"
            found.append(Goal(name, services_to_postgres(extractive.processor_ms), 1))
        return found


@dataclass(frozen=True, slots=True)
class ChatBench:
    """Extent of the measurement."""

    sets: Sequence[EvaluationInput]
    questions: int = 300
    latency_chats: int = 100
    cancelled_chats: int = 20
    warm_up: int = 20
    most_streams: int = 256
    memory_chats: int = 2_000
    tokens: int = 200
    tokens_per_second: float = 100.0
    database_url: str | None = None
    """URL of the server of its databases; None: embedded ones."""
    report: Report = lambda _line: None

    async def run(self) -> ChatFigures:
        """Measure. Raises DatasetError, GatewayError, SuiteFailedError."""
        loaded = [(one, EvaluationSet.load(one.directory)) for one in self.sets]
        asked = {
            one.directory.resolve().name: spread(known_answers(dataset), self.questions)
            for one, dataset in loaded
        }
        figures = ChatFigures()
        first, dataset = loaded[0]
        queries = asked[first.directory.resolve().name]
        with tempfile.TemporaryDirectory(prefix="groundline-bench-") as folder:
            async with self._suite(Path(folder) / EXTRACTIVE, {}) as (suite, client):
                for one, each in loaded:
                    name = one.directory.resolve().name
                    self.report(
                        f"extractive: {len(asked[name])} questions of {name}, with and without the answer"
                    )
                    figures.quality[name] = await measure_quality(
                        client,
                        each,
                        asked[name],
                        one.language,
                        name=name.lower().replace("_", "-"),
                        concurrency=_CONCURRENCY,
                        on_answer=self._counting(2 * len(asked[name]), "questions"),
                    )
                await load_collection(client, dataset, _LATENCY_COLLECTION, first.language)
                await self._measure(EXTRACTIVE, suite, client, queries, None, figures)
            provider = Provider(tokens=self.tokens, tokens_per_second=self.tokens_per_second)
            async with (
                serving_provider(provider),
                self._suite(Path(folder) / "openai", provider.environment) as (suite, client),
            ):
                await load_collection(client, dataset, _LATENCY_COLLECTION, first.language)
                await self._measure("openai", suite, client, queries, provider, figures)
        return figures

    @asynccontextmanager
    async def _suite(
        self, directory: Path, environment: Mapping[str, str]
    ) -> AsyncIterator[tuple[Suite, AsyncClient]]:
        self.report(f"{directory.name}: starting a suite")
        async with (
            suite_database(self.database_url) as database,
            started_suite(directory, {**environment, **database}) as suite,
            suite.connection.client() as client,
        ):
            yield suite, client

    async def _measure(
        self,
        name: str,
        suite: Suite,
        client: AsyncClient,
        questions: Sequence[Query],
        provider: Provider | None,
        figures: ChatFigures,
    ) -> None:
        requests = [_request(question) for question in questions]
        if self.latency_chats:
            self.report(f"{name}: {self.latency_chats} chats one after the other")
            chats = _times(requests, self.warm_up + self.latency_chats)
            figures.latency[name] = await measure_latency(
                client,
                chats,
                provider,
                suite.pids,
                warm_up=self.warm_up,
                on_chat=self._counting(len(chats), "chats"),
            )
        if provider is not None and self.most_streams:
            self.report(f"{name}: 1 to {self.most_streams} streams side by side")
            figures.streams = await measure_streams(
                suite.connection, requests, provider, suite.pids, most=self.most_streams
            )
        if provider is not None and self.cancelled_chats:
            self.report(f"{name}: {self.cancelled_chats} chats that are left in the middle")
            figures.cancellation = await measure_cancellation(
                client, _times(requests, self.cancelled_chats), provider
            )
        if self.memory_chats:
            self.report(f"{name}: {self.memory_chats} chats for the memory they leave behind")
            if provider is not None:
                provider.tokens_per_second = (
                    1_000_000.0  # from here on only the number of tokens matters, not their rate
                )
            figures.memory[name] = await measure_memory(
                client,
                requests,
                suite.pids,
                chats=self.memory_chats,
                warm_up=self.memory_chats // 4,
                concurrency=_MEMORY_CONCURRENCY,
                on_chat=self._counting(self.memory_chats + self.memory_chats // 4, "chats"),
            )

    def _counting(self, total: int, what: str) -> Callable[[], None]:
        """Return a function to call for each one that is done; it reports now and then."""
        done, reported = 0, time.monotonic()

        def count() -> None:
            nonlocal done, reported
            done += 1
            if time.monotonic() - reported >= _REPORT_EVERY_SECONDS:
                reported = time.monotonic()
                self.report(f"  {done} of {total} {what}")

        return count


def _request(question: Query) -> JsonObject:
    return {
        "query": question.text,
        "collectionIds": [_LATENCY_COLLECTION],
        # Whether a question is rewritten depends on its words, and would mix two distributions.
        "options": {"effort": "EFFORT_QUICK"},
    }


def _times(requests: Sequence[JsonObject], count: int) -> list[JsonObject]:
    return [requests[number % len(requests)] for number in range(count)]
