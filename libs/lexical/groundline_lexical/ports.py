"""The port to a BM25 index in PostgreSQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg
from asyncpg.pool import PoolConnectionProxy

type Connection = asyncpg.Connection[Any] | PoolConnectionProxy[Any]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Properties that differ between backends, on which search, readiness and repair rely."""

    survives_unclean_stop: bool
    """Whether every committed row is found after a crash. Otherwise every index must be rebuilt before it is
    trusted again: rows may be lost silently, and no check proves that the others are sound."""

    answers_on_standby: bool
    """Whether a streaming standby can be searched."""

    filters_in_index: bool
    """Whether search_sql takes a `condition`, which is applied while the index is scanned."""

    filters_collections: bool
    """Whether search_sql takes `collections`, so that many small collections can share a table and its
    index."""

    considered_matches: int | None = None
    """Number of best matches of a table that a search considers; None for all. Of those that a condition
    leaves, it finds the ones among them."""

    standby_settings: tuple[tuple[str, str], ...] = ()
    """Settings of connections to standbys, without which a table with this index cannot be read there."""


class LexicalIndex(Protocol):
    """A BM25 index on the columns `chunk_id` (bigint, unique in the table) and `lexical_text` of a table.

    `table` is always the name of a table that holds rows (a partition, not its parent), as plain lower-case
    identifier; anything else raises ValueError.
    """

    @property
    def name(self) -> str:
        """Name of the backend, as settings and collections spell it."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of this backend."""

    async def create_extension(self, connection: Connection) -> None:
        """Create the PostgreSQL extension if it is missing.

        Raises LexicalIndexError if the role may not.
        """

    async def create_index(
        self,
        connection: Connection,
        table: str,
        language: str,
        *,
        is_shared: bool = False,
        concurrently: bool = False,
    ) -> None:
        """Index a table, with stop words and stemming of `language` (its English name in lower case).

        A language that the backend does not know, such as "simple", is indexed without either. A shared table
        has a column `collection_id` (text); without capabilities.filters_collections ValueError is raised.

        `concurrently`, which must be outside a transaction, lets others write meanwhile, and replaces what an
        interrupted build left.
        """

    def search_sql(
        self,
        table: str,
        language: str,
        *,
        limit: int | None,
        columns: str = "",
        condition: str = "",
        collections: str = "",
    ) -> str:
        """Return the search statement for a table indexed in `language`; `$1` is the result of prepare_query
        (text).

        Rows are chunk_id and score (higher is better), then `columns` (SQL expressions over the table, with
        parameters from `$2` on, each with a name of its own), best first, ties by chunk_id; `limit` of them,
        or all that match. Which of several equal rows are within the limit is the index's choice.

        `condition` (SQL over the table, with parameters from `$2` on) keeps the rows for which it is true; it
        changes no score. Without capabilities.filters_in_index it raises ValueError: select the condition as
        one of the `columns` then, of as many rows as needed.

        `collections` (a parameter such as `$3`, a text[]) keeps the rows of these collections in a shared
        table while the index is scanned; it changes no score, so that scores are comparable between the
        collections of a table. Without capabilities.filters_collections it raises ValueError.

        Run it with `plan_cache_mode = force_generic_plan` and `max_parallel_workers_per_gather = 0`: the same
        rows take far longer otherwise.
        """

    def search_settings(self, limit: int | None) -> Mapping[str, str]:
        """Return the settings that the statement needs in its transaction (SET LOCAL); mostly none."""

    def prepare_query(self, query: str, language: str) -> str:
        """Make `$1` from any text that a user may write, for tables indexed in `language`.

        Never raises; the text has no query syntax.
        """

    async def probe(self, connection: Connection, table: str) -> bool:
        """Tell whether the index finds the oldest and the newest row of the table; an empty table is fine.

        Quick enough to ask often, and no proof: rows between the two may be missing, and one that cannot be
        told from very many others counts as found. Must run outside a transaction. A table without the index
        is an error of the database.
        """

    async def missing_rows(self, connection: Connection, table: str) -> int | None:
        """Count the rows of the table that the index lacks; None if it cannot count its rows.

        Reads the whole table. 0 does not prove an index sound after an unclean stop, since its words may
        still be wrong, but tells whether rows were lost. Must run outside a transaction.
        """

    async def rebuild(self, connection: Connection, table: str) -> None:
        """Build a new index while the old one is searched and written to, then replace it.

        Needed after an unclean stop that the index does not survive, and after a release of the extension
        that asks for it. Takes as long as create_index on the table. Must run outside a transaction.
        """
