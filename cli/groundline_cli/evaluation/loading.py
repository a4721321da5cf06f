"""A collection of a set's own, by the ordinary ingestion."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from groundline_client import AsyncClient, JsonObject
from groundline_client.models import VectorIndexState

from groundline_cli.evaluation.sets import DatasetError, EvaluationSet
from groundline_cli.ingestion import OnProgress, ensure_collection, ingest_documents

# The largest there is: a row is one chunk unless it is longer.
_CHUNK_SIZE: Final = 20_000
_BATCH_DOCUMENTS: Final = 64
_COLLECTION_LENGTH: Final = 63
_POLL_SECONDS: Final = 0.25


def collection_name(dataset: EvaluationSet) -> str:
    """Return the name of the set's collection if none is given."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", dataset.name.lower())
    return f"eval-{slug}"[:_COLLECTION_LENGTH]


def set_settings(language: str, further: JsonObject | None = None) -> JsonObject:
    """Return the settings of a set's collection: rows are chunks unless `further` ones cut them."""
    base = {"chunking": {"chunkSize": _CHUNK_SIZE, "chunkOverlap": 0}, "lexical": {"language": language}}
    return {**base, **(further or {})}


@asynccontextmanager
async def own_collection(
    client: AsyncClient, dataset: EvaluationSet, collection: str, settings: JsonObject, *, keep: bool
) -> AsyncIterator[None]:
    """Provide the set's collection for the body; delete it afterwards unless it existed before or is to be
    kept. Raises DatasetError if the collection is another's, GatewayError."""
    name = f"Evaluation of {dataset.name} ({_digest(settings)})"
    created = await ensure_collection(client, collection, name=name, settings=settings)
    if not created and (await client.get_collection(collection)).name != name:
        raise DatasetError(
            f"the collection {collection} is there already, and not from an earlier `eval` of this set with "
            "these settings: choose another with --collection"
        )
    try:
        yield
    finally:
        if created and not keep:
            await client.delete_collection(collection)


async def load_documents(
    client: AsyncClient,
    dataset: EvaluationSet,
    collection: str,
    *,
    without: frozenset[str] = frozenset(),
    on_progress: OnProgress | None = None,
) -> None:
    """Load each row of the set as a document, except those of the ids in `without`, and wait until they are
    searched as they will be. Raises DatasetError, GatewayError."""
    wanted = dataset.contents.keys() - without
    if not wanted:
        raise DatasetError(f"{dataset.directory}: no document is left")
    documents = (
        {"uri": document_id, "title": title, "text": text, "mimeType": "text/plain"}
        for document_id, title, text in dataset.documents()
        if document_id in wanted
    )
    report = await ingest_documents(
        client,
        documents,
        collection,
        total=len(wanted),
        on_progress=on_progress,
        batch_documents=_BATCH_DOCUMENTS,
    )
    if report.failures:
        first = report.failures[0]
        raise DatasetError(
            f"{len(report.failures)} documents could not be ingested, first {first.name}: {first.reason}"
        )
    # Before it has its index, vectors are searched without: not what is measured.
    while (await client.get_collection_stats(collection)).vector_index == VectorIndexState.PENDING:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)


def _digest(settings: JsonObject) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
