"""Questions to a gateway: searches and answers of a whole set, side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundline_client import ApiError, AsyncClient, JsonObject
from groundline_client.models import Verdict, VerifiedClaim, VerifyCompleted

from groundline_cli.evaluation.answers import Outcome
from groundline_cli.evaluation.measures import unique
from groundline_cli.evaluation.part_file import PartFile
from groundline_cli.evaluation.sets import LabelledClaim, Query

# More than the deepest rank that is measured, for rows that make several chunks: a document counts once.
_TOP_K: Final = 50
_ATTEMPTS: Final = 6
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_WORST_FIRST: Final = (Verdict.REFUTED, Verdict.NOT_FOUND, Verdict.SUPPORTED)


@dataclass(frozen=True, slots=True)
class RankedDocuments:
    """Documents that a search found, best first."""

    documents: Sequence[str]
    degraded: bool
    """Whether an arm or a strategy was skipped, failed or came late; the ranks say little about it then."""


class Journal:
    """Answers that were measured, by id of the question; kept in a file if a path is given."""

    def __init__(self, path: Path | None, key: str) -> None:
        self._file = PartFile(path, key)
        self.outcomes: dict[str, Outcome] = {}
        for row in self._file.rows:
            # A row of another release may have other fields.
            with suppress(TypeError, KeyError):
                self.outcomes[row["id"]] = Outcome(**row["outcome"])

    def add(self, query_id: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        self.outcomes[query_id] = outcome
        self._file.add({"id": query_id, "outcome": outcome.as_json()})

    def remove(self) -> None:
        """Delete the file."""
        self._file.remove()


async def ask_all(
    client: AsyncClient,
    queries: Sequence[Query],
    collection: str,
    *,
    concurrency: int,
    journal: Journal,
    options: JsonObject | None = None,
    on_answer: Callable[[], None] = lambda: None,
) -> Mapping[str, Outcome]:
    """Ask each question that the journal does not hold, without keeping threads, and return all outcomes.

    A question that the gateway refuses for good is an outcome with its error. Raises GatewayError if it
    cannot be reached or stays busy.
    """
    waiting = [query for query in queries if query.query_id not in journal.outcomes]

    async def one(query: Query) -> None:
        journal.add(query.query_id, await _ask(client, query, collection, options))
        on_answer()

    await _side_by_side(one, waiting, concurrency)
    return {query.query_id: journal.outcomes[query.query_id] for query in queries}


async def search_all(
    client: AsyncClient,
    queries: Sequence[Query],
    collection: str,
    options: JsonObject,
    *,
    concurrency: int = 1,
    on_search: Callable[[], None] = lambda: None,
) -> Mapping[str, RankedDocuments]:
    """Search for each question; return the rankings by its id. Raises GatewayError."""
    found: dict[str, RankedDocuments] = {}
    options = {**options, "rerank": {**options.get("rerank", {}), "topK": _TOP_K}}

    async def one(query: Query) -> None:
        response = await client.search(query.text, collection_ids=[collection], options=options)
        documents = unique(passage.chunk.uri for passage in response.passages if passage.chunk)
        found[query.query_id] = RankedDocuments(documents, bool(response.degraded))
        on_search()

    await _side_by_side(one, queries, concurrency)
    return found


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with the label of a person and the verdict of the suite."""

    label: Verdict
    verdict: Verdict
    judges: Mapping[str, int]
    """Judges that decided, with the number of its parts that each did."""
    degraded: bool
    """Whether a judge failed or was not believed, or the search lacked a part."""


async def judge_claims(
    client: AsyncClient,
    claims: Sequence[LabelledClaim],
    collection: str,
    *,
    concurrency: int,
    on_claim: Callable[[], None] = lambda: None,
) -> Sequence[JudgedClaim]:
    """Verify each claim against the collection. Raises GatewayError."""
    found: dict[int, JudgedClaim] = {}

    async def one(place: int) -> None:
        found[place] = await _judge(client, claims[place], collection)
        on_claim()

    await _side_by_side(one, range(len(claims)), concurrency)
    return [found[place] for place in range(len(claims))]


async def _judge(client: AsyncClient, claim: LabelledClaim, collection: str) -> JudgedClaim:
    verdicts, completed = set[Verdict](), VerifyCompleted()
    async with aclosing(client.verify(claim.text, collection_ids=[collection])) as events:
        async for event in events:
            match event:
                case VerifiedClaim():
                    verdicts.add(event.verdict)
                case VerifyCompleted():
                    completed = event
    # A claim of several sentences is as good as its worst.
    verdict = next((each for each in _WORST_FIRST if each in verdicts), Verdict.NOT_FOUND)
    judges = {each.model: each.claim_count for each in completed.judged_by}
    return JudgedClaim(claim.verdict, verdict, judges, bool(completed.degraded))


async def _ask(client: AsyncClient, query: Query, collection: str, options: JsonObject | None) -> Outcome:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return Outcome.of(
                await client.answer(query.text, collection_ids=[collection], options=options, store=False)
            )
        except ApiError as error:
            if not error.retryable and error.http_status == 400:
                return Outcome.failed(str(error))
            if not error.retryable or attempt == _ATTEMPTS:
                raise
            pause = error.retry_after_seconds or _PAUSE_SECONDS
        await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
    raise AssertionError("the last attempt returns or raises")


async def _side_by_side[T](
    work: Callable[[T], Awaitable[None]], items: Sequence[T], concurrency: int
) -> None:
    """Do the work for each item, at most `concurrency` at a time; the first error stops all and is raised."""
    free = asyncio.Semaphore(concurrency)

    async def one(item: T) -> None:
        async with free:
            await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
