"""Shared parts of the commands that evaluate."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from groundline_client import AsyncClient, JsonObject
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from groundline_cli.commands.gateway import all_of
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.evaluation.loading import collection_name, load_documents, own_collection
from groundline_cli.evaluation.sets import EvaluationSet

__all__ = ["is_stored", "measured_collection", "question_bar", "run_key"]


def is_stored(directory: Path) -> bool:
    """Tell whether a set has no documents of its own, and is about a collection that is there already."""
    return not (directory / "corpus.jsonl").exists()


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
