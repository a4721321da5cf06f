"""Tables of documents in PostgreSQL."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice
from typing import Any, Final

import asyncpg
from groundline.v1 import table_pb2
from groundline_database import Connection
from groundline_database.enums import enum_text
from groundline_extraction.tables import TableRows
from groundline_extraction.texts import TextSegment
from groundline_language import guess_language
from groundline_tables.columns import Column
from groundline_tables.values import DecimalMark

from groundline_indexing.documents import ReadyDocument
from groundline_indexing.tables.found import FoundTable, found_tables, stored_rows
from groundline_indexing.texts import Series

__all__ = ["store_tables"]

COPIED_ROWS: Final = 5_000
"""Rows that are in memory at a time."""

_LANGUAGE_CHARACTERS: Final = 4_000
_ADD_KEYS: Final = """
    INSERT INTO document_table_keys (table_id, key, column_index, text)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::text[]) ON CONFLICT DO NOTHING
"""
_NO_KEYS: Final[tuple[list[Any], ...]] = ([], [], [], [])
_ROW_COLUMNS: Final = (
    "table_id",
    "row_index",
    "row_number",
    "start_offset",
    "texts",
    "numbers",
    "is_total",
)


async def store_tables(connection: Connection, rows: Iterable[tuple[ReadyDocument, asyncpg.Record]]) -> None:
    """Write the tables of documents, each with its row of the table documents, in place of those that were
    read from the same content before."""
    for new, row in rows:
        document_id, content_hash = row["document_id"], new.version.content_hash
        if not row["is_inserted"]:
            await connection.execute(
                "DELETE FROM document_tables WHERE (document_id, content_hash) = ($1, $2)",
                document_id,
                content_hash,
            )
        if any(segment.tables for segment in new.segments):
            await _store(connection, document_id, content_hash, new.segments)


async def _store(
    connection: Connection, document_id: Any, content_hash: bytes, segments: Series[TextSegment]
) -> None:
    tables = await asyncio.to_thread(found_tables, _parts(segments), _mark_of(segments))
    ids = {
        table.index: await _insert(connection, document_id, content_hash, table) for table in tables.values()
    }
    places = {index: count() for index in ids}
    rows = stored_rows(_parts(segments), tables)
    while batch := await asyncio.to_thread(list, islice(rows, COPIED_ROWS)):
        await connection.copy_records_to_table(
            "document_table_rows",
            records=[(ids[row.table_index], next(places[row.table_index]), *row[1:-1]) for row in batch],
            columns=_ROW_COLUMNS,
        )
        keys = {(ids[row.table_index], *key) for row in batch for key in row.keys}
        await connection.execute(_ADD_KEYS, *([list(part) for part in zip(*keys, strict=True)] or _NO_KEYS))


async def _insert(connection: Connection, document_id: Any, content_hash: bytes, table: FoundTable) -> int:
    table_id: int = await connection.fetchval(
        """
        INSERT INTO document_tables
            (document_id, content_hash, table_index, name, sheet, left_column, page, columns, row_count,
             is_cut)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING table_id
        """,
        document_id,
        content_hash,
        table.index,
        table.name,
        table.sheet,
        table.left,
        table.page,
        list(map(_described, table.columns)),
        table.row_count,
        table.is_cut,
    )
    return table_id


def _described(column: Column) -> dict[str, str | None]:
    return {"name": column.name, "type": enum_text(table_pb2.ColumnType, column.type), "unit": column.unit}


def _parts(segments: Series[TextSegment]) -> Iterator[TableRows]:
    return chain.from_iterable(segment.tables for segment in segments)


def _mark_of(segments: Series[TextSegment]) -> DecimalMark:
    """Return the mark before decimals of the language of a document; "" if that is not known."""
    first = next(iter(segments), None)
    language = guess_language(first.text[:_LANGUAGE_CHARACTERS]) if first else None
    return "" if language is None else "." if language == "english" else ","
