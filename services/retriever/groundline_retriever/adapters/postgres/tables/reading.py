"""Tables that a caller may read, and answers of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
from groundline.v1 import table_pb2
from groundline_database import current_revision, is_readable_collection, is_readable_document
from groundline_database.codecs import read_enum

from groundline_retriever.adapters.postgres.reads import Reads
from groundline_retriever.adapters.postgres.tables.plans import repeated_key, statement_of
from groundline_retriever.tables.domain import AnswerRow, CheckedPlan, StoredTable

_TABLES: Final = f"""
    SELECT t.table_id, d.collection_id, d.document_id, t.table_index, d.title, d.uri,
        {current_revision("d")} AS revision, t.name, t.sheet, t.left_column, t.page, t.columns, t.row_count,
        t.is_cut
    FROM document_tables t
    JOIN documents d ON (d.document_id, d.content_hash) = (t.document_id, t.content_hash)
    JOIN collections k ON k.collection_id = d.collection_id
    WHERE {is_readable_collection("$1", "k")} AND {is_readable_document("$1", "d")}
        AND ($2::text[] = '{{}}' OR d.collection_id = ANY($2::text[]))
"""  # noqa: S608 - conditions of this suite
MAX_ASKED_COLUMNS: Final = 200
"""Maximum columns of a table that questions are tried on; plans reach all tables."""

_ASKED: Final = f"{_TABLES} AND jsonb_array_length(t.columns) <= {MAX_ASKED_COLUMNS:d}"
_NAMED: Final = f"{_TABLES} AND d.document_id = $3::uuid AND t.table_index = $4"
_OF_DOCUMENT: Final = f"{_TABLES} AND d.document_id = $3::uuid ORDER BY t.table_index LIMIT $4"
_SOME: Final = f"{_ASKED} ORDER BY t.table_id LIMIT $3"
_OF_DOCUMENTS: Final = f"{_ASKED} AND d.document_id = ANY($3::uuid[]) ORDER BY t.table_id LIMIT $4"

_VALUES: Final = """
    SELECT DISTINCT table_id, key, column_index FROM document_table_keys
    WHERE table_id = ANY($1::bigint[]) AND key = ANY($2::text[])
"""

_FIRST_ROWS: Final = """
    SELECT table_id, texts FROM document_table_rows
    WHERE table_id = ANY($1::bigint[]) AND row_index < $2
    ORDER BY table_id, row_index
"""

_CHUNKS: Final = """
    SELECT DISTINCT ON (wanted.place) c.chunk_id
    FROM unnest($2::integer[]) WITH ORDINALITY AS wanted (start_offset, place)
    JOIN {table} c ON c.document_id = $1::uuid
        AND c.start_offset <= wanted.start_offset AND c.end_offset > wanted.start_offset
    ORDER BY wanted.place, c.chunk_index
"""


class ReadableTables:
    """TableStore; the primary answers."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def some(
        self, principals: Sequence[str], collection_ids: Sequence[str], limit: int
    ) -> Sequence[StoredTable]:
        """See TableStore.some."""
        return await self._fetch(_SOME, principals, list(collection_ids), limit)

    async def of_document(
        self, principals: Sequence[str], collection_ids: Sequence[str], document_id: str, limit: int
    ) -> Sequence[StoredTable]:
        """See TableStore.of_document."""
        return await self._fetch(_OF_DOCUMENT, principals, list(collection_ids), document_id, limit)

    async def of_documents(
        self,
        principals: Sequence[str],
        collection_ids: Sequence[str],
        document_ids: Sequence[str],
        limit: int,
    ) -> Sequence[StoredTable]:
        """See TableStore.of_documents."""
        return await self._fetch(_OF_DOCUMENTS, principals, list(collection_ids), list(document_ids), limit)

    async def named(
        self, principals: Sequence[str], collection_ids: Sequence[str], document_id: str, table_index: int
    ) -> StoredTable | None:
        """See TableStore.named."""
        found = await self._fetch(_NAMED, principals, list(collection_ids), document_id, table_index)
        return found[0] if found else None

    async def values(
        self, tables: Sequence[StoredTable], keys: Sequence[str]
    ) -> Mapping[int, Mapping[str, frozenset[int]]]:
        """See TableStore.values."""
        async with self._reads.connection() as connection:
            rows = await connection.fetch(_VALUES, [each.table_id for each in tables], list(keys))
        found: dict[int, dict[str, frozenset[int]]] = defaultdict(dict)
        for table_id, key, column in rows:
            found[table_id][key] = found[table_id].get(key, frozenset()) | {column}
        return found

    async def chunk_ids(self, table: StoredTable, start_offsets: Sequence[int]) -> Sequence[int]:
        """See TableStore.chunk_ids."""
        if not start_offsets:
            return ()
        async with self._reads.connection() as connection:
            partition_id = await connection.fetchval(
                "SELECT partition_id FROM collections WHERE collection_id = $1", table.table.collection_id
            )
            if partition_id is None:
                return ()
            statement = _CHUNKS.format(table=f"chunks_p{partition_id:d}")
            rows = await connection.fetch(statement, table.table.document_id, list(start_offsets))
        return [row["chunk_id"] for row in rows]

    async def first_rows(
        self, tables: Sequence[StoredTable], count: int
    ) -> Mapping[int, Sequence[Sequence[str]]]:
        """See TableStore.first_rows."""
        async with self._reads.connection() as connection:
            rows = await connection.fetch(_FIRST_ROWS, [each.table_id for each in tables], count)
        found: dict[int, list[Sequence[str]]] = defaultdict(list)
        for table_id, texts in rows:
            found[table_id].append(texts)
        return found

    async def repeats(self, table: StoredTable, column: int) -> bool:
        """See TableStore.repeats."""
        statement = repeated_key(table.table_id, column)
        async with self._reads.connection() as connection:
            found: bool = await connection.fetchval(statement.text, *statement.arguments)
        return found

    async def ask(self, table: StoredTable, checked: CheckedPlan) -> tuple[Sequence[AnswerRow], int]:
        """See TableStore.ask."""
        statement = statement_of(table, checked)
        async with self._reads.connection() as connection:
            rows = await connection.fetch(statement.text, *statement.arguments)
        found = [AnswerRow(*(row[name] for name in AnswerRow._fields)) for row in rows]
        return found, rows[0]["total"] if rows else 0

    async def _fetch(self, statement: str, *arguments: Any) -> Sequence[StoredTable]:
        async with self._reads.connection() as connection:
            return [_table(row) for row in await connection.fetch(statement, *arguments)]


def _table(row: asyncpg.Record) -> StoredTable:
    columns = [
        table_pb2.TableColumn(
            index=index,
            name=column["name"],
            type=read_enum(table_pb2.ColumnType, column["type"]),
            unit=column["unit"],
        )
        for index, column in enumerate(row["columns"])
    ]
    names = ("collection_id", "table_index", "title", "uri", "revision", "name", "sheet", "page")
    table = table_pb2.Table(
        **{name: row[name] for name in names},
        document_id=str(row["document_id"]),
        columns=columns,
        row_count=row["row_count"],
        is_cut=row["is_cut"],
    )
    return StoredTable(row["table_id"], table, row["left_column"])
