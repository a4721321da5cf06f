"""ChunkStore and SearchIndex on PostgreSQL: partitions of chunks, a BM25 and an HNSW index on each.

The arms' statements read what ranking needs and no texts; `fetch` reads the chunks that are kept, and decides
what exists and may be read.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import asyncpg
import structlog
from groundline_database import (
    DatabaseSettings,
    Pool,
    acquire,
    keep_session,
    open_pool,
    register_vectors,
    require_schema,
    stored_embedding_models,
)
from groundline_database.spending import SpendingLedger
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_runtime.errors import FailedPreconditionError
from groundline_runtime.quotas import Budgets
from pydantic import SecretStr

from groundline_retriever.adapters.postgres.checks import IndexChecks
from groundline_retriever.adapters.postgres.collections import ReadableCollections
from groundline_retriever.adapters.postgres.facets import Facets
from groundline_retriever.adapters.postgres.keyword import KeywordArm, answers_on_standbys
from groundline_retriever.adapters.postgres.proposals import Proposals
from groundline_retriever.adapters.postgres.reading.chunks import ReadableChunks
from groundline_retriever.adapters.postgres.reading.past import SearchablePast
from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.semantic import SESSION_SETTINGS, SemanticArm
from groundline_retriever.adapters.postgres.soundness import SoundIndexes
from groundline_retriever.adapters.postgres.standbys import Standbys, urls_of_hosts
from groundline_retriever.adapters.postgres.tables.reading import ReadableTables

SCHEMA: Final = {"ingestor": 19}
"""Minimum version of the tables that it reads."""

SERVER_SETTINGS: Final[Mapping[str, str]] = {
    **SESSION_SETTINGS,
    # For SSDs; at PostgreSQL's default of 4 the planner prefers a full scan of a small partition to HNSW.
    "random_page_cost": "1.1",
    # Starting workers and compiling take longer than these searches.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    # Planning takes as long as searching. Limits are literals in the statements: a parameter is unknown in a
    # generic plan, and pg_search would then rank every match.
    "plan_cache_mode": "force_generic_plan",
}

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_chunk_store(
    settings: DatabaseSettings,
    lexical_backend: str | None = None,
    *,
    read_url: SecretStr | None = None,
    max_lag_seconds: float = 2.0,
) -> AsyncIterator["PostgresChunkStore"]:
    """Open the store on a pool of its own, with the lexical backend of this name, or the server's.

    Search arms read from the standbys of `read_url` too. Raises LexicalIndexError, the errors of open_pool,
    and FailedPreconditionError for a read_url that cannot be used.
    """
    sound = SoundIndexes()

    async def prepare(connection: "asyncpg.Connection[Any]") -> None:
        await register_vectors(connection)
        await sound.refresh(connection)

    async with open_pool(settings, init=prepare, reset=keep_session, server_settings=SERVER_SETTINGS) as pool:
        async with pool.acquire() as connection:
            lexical = await detect_lexical_index(connection, lexical_backend)
        sound.survive_unclean_stops = lexical.capabilities.survives_unclean_stop
        if read_url is None:
            yield PostgresChunkStore(pool, lexical, sound)
            return
        async with (
            _open_standbys(settings, read_url, lexical) as pools,
            Standbys.following(pool, pools, max_lag_seconds) as standbys,
        ):
            _log.info(
                "reads_on_standbys",
                standbys=list(pools),
                semantic_search=True,
                keyword_search=answers_on_standbys(lexical),
            )
            yield PostgresChunkStore(pool, lexical, sound, standbys)


@asynccontextmanager
async def _open_standbys(
    settings: DatabaseSettings, url: SecretStr, lexical: LexicalIndex
) -> AsyncIterator[Mapping[str, Pool]]:
    """Open a pool for each host. A host may be down: connections are made on demand."""
    try:
        urls = urls_of_hosts(url.get_secret_value(), settings.database_url.get_secret_value())
    except ValueError as error:
        raise FailedPreconditionError(
            "DATABASE_URL_INVALID", f"read_database_url cannot be used: {error}"
        ) from None
    async with AsyncExitStack() as pools:
        yield {
            name: await pools.enter_async_context(
                open_pool(
                    settings.model_copy(update={"database_url": SecretStr(one), "pool_min_size": 0}),
                    init=register_vectors,
                    reset=keep_session,
                    server_settings={**SERVER_SETTINGS, **dict(lexical.capabilities.standby_settings)},
                )
            )
            for name, one in urls.items()
        }


class PostgresChunkStore:
    """ChunkStore and SearchIndex, opened by open_chunk_store; each method of theirs is one of a part."""

    def __init__(
        self, pool: Pool, lexical: LexicalIndex, sound: SoundIndexes, standbys: Standbys | None = None
    ) -> None:
        self._pool = pool
        reads = Reads(pool, standbys)
        self.collections = ReadableCollections(reads).readable
        self.keyword = KeywordArm(reads, lexical, sound).search
        self.semantic = SemanticArm(reads).search
        chunks = ReadableChunks(reads)
        self.fetch, self.revision_texts = chunks.fetch, chunks.revision_texts
        past = SearchablePast(reads, chunks)
        self.collections_as_of, self.fetch_as_of = past.collections, past.fetch
        self.facets = Facets(reads).count
        self.proposals = Proposals(reads)
        self.tables = ReadableTables(reads)
        self.require_keyword_search = IndexChecks(reads, lexical, sound).require_keyword_search

    async def embedding_models(self) -> Mapping[tuple[str, int], int]:
        """Count the collections of each embedding model and length of its vectors."""
        async with acquire(self._pool) as connection:
            return await stored_embedding_models(connection)

    def ledger(self, budgets: Budgets) -> SpendingLedger:
        """Return the ledger of what callers spend, of the same database."""
        return SpendingLedger(self._pool, budgets)

    async def require_schema(self) -> None:
        """Raise unless the database can be reached and its schema is new enough."""
        await require_schema(self._pool, SCHEMA)
