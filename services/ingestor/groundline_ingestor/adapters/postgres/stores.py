"""Stores of the ingestor, over one pool of connections."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from groundline_database import Pool
from groundline_database.spending import SpendingLedger
from groundline_indexing.lexical_indexes import LexicalIndexes
from groundline_indexing.revisions.past import PastChunks
from groundline_indexing.vector_indexes import VectorIndexes
from groundline_lexical import LexicalIndex
from groundline_runtime.quotas import Budgets

from groundline_ingestor.adapters.contextualizing import PostgresContextCache
from groundline_ingestor.adapters.postgres.collecting.crawls import PostgresCrawls
from groundline_ingestor.adapters.postgres.collecting.seen_pages import PostgresSeenPages
from groundline_ingestor.adapters.postgres.collecting.sources import PostgresSources
from groundline_ingestor.adapters.postgres.collections import PostgresCollections
from groundline_ingestor.adapters.postgres.documents.erasures import PostgresErasures
from groundline_ingestor.adapters.postgres.documents.holds import PostgresHolds
from groundline_ingestor.adapters.postgres.documents.reading import PostgresDocuments
from groundline_ingestor.adapters.postgres.documents.reverting import PostgresReverts
from groundline_ingestor.adapters.postgres.documents.revisions import PostgresRevisions
from groundline_ingestor.adapters.postgres.documents.versions import PostgresVersions
from groundline_ingestor.adapters.postgres.embeddings import PostgresEmbeddingCache
from groundline_ingestor.adapters.postgres.jobs import PostgresJobs
from groundline_ingestor.adapters.postgres.kept_indexes import PostgresKeptIndexes
from groundline_ingestor.adapters.postgres.queue import PostgresQueue
from groundline_ingestor.adapters.postgres.quotas import PostgresQuotas
from groundline_ingestor.adapters.postgres.reindex import PostgresReindex
from groundline_ingestor.adapters.postgres.webhooks import PostgresWebhooks
from groundline_ingestor.ports import SeenPages
from groundline_ingestor.service.worker.generator.contextualization import ContextCache


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores of the ingestor."""

    collections: PostgresCollections
    documents: PostgresDocuments
    revisions: PostgresRevisions
    reverts: PostgresReverts
    holds: PostgresHolds
    erasures: PostgresErasures
    versions: PostgresVersions
    jobs: PostgresJobs
    queue: PostgresQueue
    crawls: PostgresCrawls
    sources: PostgresSources
    seen_pages: Callable[[str], SeenPages]
    reindex: PostgresReindex
    kept_indexes: PostgresKeptIndexes
    lexical_indexes: LexicalIndexes
    vector_indexes: VectorIndexes
    past: PastChunks
    embeddings: PostgresEmbeddingCache
    contexts: ContextCache
    quotas: PostgresQuotas
    webhooks: PostgresWebhooks


def stores_on(
    pool: Pool,
    lexical: LexicalIndex,
    *,
    spool_directory: Path | None = None,
    vector_index_memory_bytes: int = 0,
    budgets: Budgets | None = None,
) -> Stores:
    """Return the stores over a pool; data that is too large for memory is put into a directory."""
    return Stores(
        PostgresCollections(pool, lexical),
        PostgresDocuments(pool),
        PostgresRevisions(pool, spool_directory=spool_directory),
        PostgresReverts(pool),
        PostgresHolds(pool),
        PostgresErasures(pool),
        PostgresVersions(pool, lexical),
        PostgresJobs(pool),
        PostgresQueue(pool, spool_directory=spool_directory),
        PostgresCrawls(pool),
        PostgresSources(pool),
        partial(PostgresSeenPages, pool),
        PostgresReindex(pool, lexical, spool_directory=spool_directory),
        PostgresKeptIndexes(pool),
        LexicalIndexes(pool, lexical),
        VectorIndexes(pool, maximum_bytes=vector_index_memory_bytes),
        PastChunks(pool, lexical),
        PostgresEmbeddingCache(pool),
        PostgresContextCache(pool),
        PostgresQuotas(pool, SpendingLedger(pool, budgets or Budgets())),
        PostgresWebhooks(pool),
    )
