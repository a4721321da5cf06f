"""groundline eval"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from groundline_client import AsyncClient, JsonObject
from groundline_client.models import VectorIndexState
from rich.console import Console
from rich.progress import Progress as Bars

from groundline_cli.commands.gateway import CommandFailedError, json_option, run, with_gateway
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.connection import Connection
from groundline_cli.evaluation import (
    DEPTHS,
    RANK_DEPTH,
    DatasetError,
    EvaluationSet,
    Query,
    Scores,
    score,
    unique,
)
from groundline_cli.ingestion import ensure_collection, ingest_documents
from groundline_cli.terminal import print_columns, print_json

__all__ = ["evaluate"]

_MODES: Final = ("keyword", "semantic", "hybrid")
_STRATEGIES: Final = ("none", "weighted", "cross_encoder", "api", "llm")
_DEFAULT_MODES: Final = "keyword,semantic,hybrid,hybrid+weighted"
# More than the deepest rank that is measured, for rows that make several chunks: a document counts once.
_TOP_K: Final = 50
# The largest there is: a row is one chunk unless it is longer.
_CHUNK_SIZE: Final = 20_000
_BATCH_DOCUMENTS: Final = 64
_COLLECTION_LENGTH: Final = 63
_POLL_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Result:
    mode: str
    scores: Scores
    degraded: int
    """Number of degraded searches; their ranks say little about the mode."""


@click.command("eval")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--modes",
    default=_DEFAULT_MODES,
    show_default=True,
    callback=lambda _context, _option, value: _modes(value),
    help="Retrieval modes to measure, with commas between; a strategy that reranks follows a plus.",
)
@click.option("--collection", metavar="NAME", help="Collection to load the set into. Default: eval-<folder>.")
@click.option("--language", default="english", show_default=True, help="Lexical language of the collection.")
@click.option("--keep", is_flag=True, help="Keep the collection, so that the next run need not load it.")
@click.option("--limit", type=click.IntRange(min=1), help="Measure only the first queries of the set.")
@json_option
@with_gateway
def evaluate(
    connection: Connection,
    directory: Path,
    modes: tuple[str, ...],
    collection: str | None,
    language: str,
    keep: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Measure retrieval on an evaluation set.

    DIRECTORY holds corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv (a heading, then
    query_id, doc_id, relevance). Where there is a documents.jsonl (id, title), a row without a title that
    names its document_id has the title of that document. Each row of the corpus becomes one document of a
    collection of its own, by the ordinary ingestion, and each query is searched for in each mode.

    R@k is the share of relevant documents among the first k; C@k the share of relevant texts, for which a
    duplicate is as good as the document judged.
    """
    try:
        dataset = EvaluationSet.load(directory)
    except DatasetError as error:
        raise CommandFailedError(str(error)) from error
    name = collection or _default_collection(directory)
    queries = dataset.queries[:limit]

    async def work(client: AsyncClient) -> list[_Result]:
        async with _own_collection(client, dataset, name, language, keep=keep):
            await _load(client, dataset, name)
            with _query_bar(len(queries) * len(modes)) as advance:
                return [await _measure(client, dataset, name, mode, queries, advance) for mode in modes]

    results = run(connection, work)
    if as_json:
        print_json(_as_json(directory, len(dataset.contents), len(queries), results))
    else:
        click.echo(f"{directory.resolve().name}: {len(dataset.contents)} documents, {len(queries)} queries")
        _print_table(results)


@asynccontextmanager
async def _own_collection(
    client: AsyncClient, dataset: EvaluationSet, collection: str, language: str, *, keep: bool
) -> AsyncIterator[None]:
    """Provide the set's collection for the body; delete it afterwards unless it existed before or is to be
    kept."""
    name = f"Evaluation of {dataset.directory.resolve().name} ({language})"
    settings = {
        "chunking": {"chunkSize": _CHUNK_SIZE, "chunkOverlap": 0},
        "lexical": {"language": language},
    }
    created = await ensure_collection(client, collection, name=name, settings=settings)
    if not created and (await client.get_collection(collection)).name != name:
        raise CommandFailedError(
            f"the collection {collection} is there already, and not from an earlier `eval` of this set in "
            "this language: choose another with --collection"
        )
    try:
        yield
    finally:
        if created and not keep:
            await client.delete_collection(collection)


async def _load(client: AsyncClient, dataset: EvaluationSet, collection: str) -> None:
    documents = (
        {"uri": document_id, "title": title, "text": text, "mimeType": "text/plain"}
        for document_id, title, text in dataset.documents()
    )
    with progress_bar() as on_progress:
        report = await ingest_documents(
            client,
            documents,
            collection,
            total=len(dataset.contents),
            on_progress=on_progress,
            batch_documents=_BATCH_DOCUMENTS,
        )
    if report.failures:
        first = report.failures[0]
        raise CommandFailedError(
            f"{len(report.failures)} documents could not be ingested, first {first.name}: {first.reason}"
        )
    # Before it has its index, vectors are searched without: not what is measured.
    while (await client.get_collection_stats(collection)).vector_index == VectorIndexState.PENDING:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)


async def _measure(
    client: AsyncClient,
    dataset: EvaluationSet,
    collection: str,
    mode: str,
    queries: Sequence[Query],
    advance: Callable[[], None],
) -> _Result:
    searched, _, strategy = mode.partition("+")
    options: JsonObject = {
        "retrieval": {"mode": f"RETRIEVAL_MODE_{searched.upper()}"},
        "rerank": {"topK": _TOP_K, "strategy": f"RERANK_STRATEGY_{(strategy or 'none').upper()}"},
    }
    rankings = []
    degraded = 0
    for query in queries:
        response = await client.search(query.text, collection_ids=[collection], options=options)
        ranking = unique(passage.chunk.uri for passage in response.passages if passage.chunk)
        rankings.append((query, ranking))
        degraded += bool(response.degraded)
        advance()
    return _Result(mode, score(rankings, dataset.contents), degraded)


@contextmanager
def _query_bar(total: int) -> Iterator[Callable[[], None]]:
    console = Console(stderr=True)
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("searching", total=total)
        yield lambda: bars.advance(task)


def _as_json(directory: Path, documents: int, queries: int, results: list[_Result]) -> JsonObject:
    return {
        "set": directory.resolve().name,
        "documents": documents,
        "queries": queries,
        "modes": {
            result.mode: {
                "recall": {str(k): value for k, value in result.scores.recall.items()},
                "contentShare": {str(k): value for k, value in result.scores.content_share.items()},
                f"mrr@{RANK_DEPTH}": result.scores.mrr,
                f"ndcg@{RANK_DEPTH}": result.scores.ndcg,
                "degraded": result.degraded,
            }
            for result in results
        },
    }


def _print_table(results: list[_Result]) -> None:
    headings = [
        "MODE",
        *(f"R@{k}" for k in DEPTHS),
        f"MRR@{RANK_DEPTH}",
        f"NDCG@{RANK_DEPTH}",
        *(f"C@{k}" for k in DEPTHS),
        "DEGRADED",
    ]
    rows = [
        [
            result.mode,
            *result.scores.recall.values(),
            result.scores.mrr,
            result.scores.ndcg,
            *result.scores.content_share.values(),
            result.degraded,
        ]
        for result in results
    ]
    print_columns(headings, rows)


def _modes(value: str) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(mode.strip() for mode in value.split(",")))
    for mode in modes:
        searched, plus, strategy = mode.partition("+")
        if searched not in _MODES or (plus and strategy not in _STRATEGIES):
            raise click.BadParameter(
                f"{mode!r}: known are {', '.join(_MODES)}, each with + and one of {', '.join(_STRATEGIES)}"
            )
    return modes


def _default_collection(directory: Path) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", directory.resolve().name.lower())
    return f"eval-{slug}"[:_COLLECTION_LENGTH]
