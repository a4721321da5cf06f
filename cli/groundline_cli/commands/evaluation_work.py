"""Shared parts of the commands that evaluate."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import click
from groundline_client import AsyncClient, JsonObject
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from groundline_cli.commands.gateway import all_of
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.evaluation.asking import search_all
from groundline_cli.evaluation.loading import collection_name, load_documents, own_collection
from groundline_cli.evaluation.results import Evaluation
from groundline_cli.evaluation.sets import EvaluationSet

WORSE_EXIT_CODE: Final = 5
"""Exit code where something is significantly worse."""

_MODES: Final = ("keyword", "semantic", "hybrid")
_STRATEGIES: Final = ("none", "weighted", "cross_encoder", "api", "llm")
_NO_MODES: Final = "none"


def modes_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a command with --modes."""
    return click.option(
        "--modes",
        default=default,
        show_default=True,
        callback=lambda _context, _option, value: _modes(value),
        help="Retrieval modes to measure, with commas between; a strategy that reranks follows a plus; none "
        "for answers alone.",
    )


def _modes(value: str) -> tuple[str, ...]:
    if value.strip() == _NO_MODES:
        return ()
    modes = tuple(dict.fromkeys(mode.strip() for mode in value.split(",")))
    for mode in modes:
        searched, plus, strategy = mode.partition("+")
        if searched not in _MODES or (plus and strategy not in _STRATEGIES):
            raise click.BadParameter(
                f"{mode!r}: known are {', '.join(_MODES)}, each with + and one of {', '.join(_STRATEGIES)}"
            )
    return modes


def _search_options(mode: str) -> JsonObject:
    searched, _, strategy = mode.partition("+")
    return {
        "retrieval": {"mode": f"RETRIEVAL_MODE_{searched.upper()}"},
        "rerank": {"strategy": f"RERANK_STRATEGY_{(strategy or 'none').upper()}"},
    }


def is_stored(directory: Path) -> bool:
    """Tell whether a set has no documents of its own, and is about a collection that is there already."""
    return not (directory / "corpus.jsonl").exists()


async def search_modes(
    client: AsyncClient,
    result: Evaluation,
    dataset: EvaluationSet,
    collection: str,
    modes: Sequence[str],
    *,
    retrieval: JsonObject | None = None,
    of: str = "",
) -> None:
    """Search for each judged question in each mode, and add the rankings to a result. `retrieval`: further
    options; `of`: what is searched, for the progress bar."""
    measured = {one.id for one in result.questions}
    judged = [query for query in dataset.queries if query.relevance and query.query_id in measured]
    for mode in modes:
        options = _search_options(mode)
        options["retrieval"] |= retrieval or {}
        with question_bar(f"searching{of} ({mode})", len(judged)) as advance:
            rankings = await search_all(client, judged, collection, options, on_search=advance)
        result.add_rankings(mode, rankings, dataset)


@asynccontextmanager
async def measured_collection(
    client: AsyncClient, directory: Path, collection: str | None, settings: JsonObject, *, keep: bool
) -> AsyncIterator[tuple[EvaluationSet, str]]:
    """Provide a set and the collection of its documents: one that is there already if the set has none of its
    own, or one that is loaded for the body. Raises DatasetError, GatewayError."""
    if collection is not None and is_stored(directory):
        documents = await all_of(client.list_documents(collection))
        yield EvaluationSet.load(directory, stored=[one.uri for one in documents]), collection
        return
    dataset = EvaluationSet.load(directory)
    collection = collection or collection_name(dataset)
    async with own_collection(client, dataset, collection, settings, keep=keep):
        with progress_bar() as on_progress:
            await load_documents(client, dataset, collection, on_progress=on_progress)
        yield dataset, collection


def run_key(dataset: EvaluationSet, collection: str, settings: JsonObject) -> str:
    """Return what tells the answers of one run from those of another."""
    questions = [(query.query_id, query.text) for query in dataset.queries]
    documents = [(name, digest and digest.hex()) for name, digest in dataset.contents.items()]
    described = json.dumps([collection, settings, questions, documents], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


@contextmanager
def question_bar(doing: str, total: int, *, done: int = 0) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal; yield what to call for each question."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(doing, total=total, completed=done)
        yield lambda: bars.advance(task)
