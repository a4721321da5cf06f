"""Tables of documents in PostgreSQL."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count, islice
from typing import Any, Final

import asyncpg
from groundline.v1 import table_pb2
from groundline_database import Connection
from groundline_database.codecs import enum_text
from groundline_extraction.tables import TableRows
from groundline_extraction.texts import TextSegment
from groundline_language import guess_language
from groundline_tables.columns import Column
from groundline_tables.values import DecimalMark

from groundline_indexing.documents import ReadyDocument
from groundline_indexing.tables.found import FoundTable, StoredRow, found_tables, stored_rows
from groundline_indexing.texts import Series

COPIED_ROWS: Final = 5_000
"""Rows that are in memory at a time."""

_ADD_KEYS: Final = """
    INSERT INTO document_table_keys (table_id, key, column_index, text)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::text[]) ON CONFLICT DO NOTHING
"""
_ROW_COLUMNS: Final = (
    "table_id",
    "row_index",
    "row_number",
    "start_offset",
    "texts",
    "numbers",
    "is_total",
)


def tables_of(segments: Series[TextSegment]) -> Mapping[int, FoundTable]:
    """Return the tables of a text by their index. Reads the whole text if it may have some."""
    if not any(segment.tables for segment in segments):
        return {}
    return found_tables(_parts(segments), _mark_of(segments))


async def store_tables(
    connection: Connection,
    rows: Iterable[tuple[ReadyDocument, asyncpg.Record]],
    read: Mapping[str, Mapping[int, FoundTable]],
) -> None:
    """Write the tables read of documents, by uri, in place of those that were read from the same content
    before. Each document comes with its row of the table documents; one of which nothing was read keeps its
    tables."""
    for new, row in rows:
        if (tables := read.get(new.version.uri)) is None:
            continue
        document_id, content_hash = row["document_id"], new.version.content_hash
        if not row["is_inserted"]:
            await connection.execute(
                "DELETE FROM document_tables WHERE (document_id, content_hash) = ($1, $2)",
                document_id,
                content_hash,
            )
        ids = {
            index: await _insert(connection, document_id, content_hash, table)
            for index, table in tables.items()
        }
        if ids:
            await _copy_rows(connection, ids, stored_rows(_parts(new.segments), tables))


async def _copy_rows(connection: Connection, ids: Mapping[int, int], rows: Iterator[StoredRow]) -> None:
    places = {index: count() for index in ids}
    while batch := await asyncio.to_thread(list, islice(rows, COPIED_ROWS)):
        await connection.copy_records_to_table(
            "document_table_rows",
            records=[(ids[row.table_index], next(places[row.table_index]), *row[1:-1]) for row in batch],
            columns=_ROW_COLUMNS,
        )
        if keys := {(ids[row.table_index], *key) for row in batch for key in row.keys}:
            await connection.execute(_ADD_KEYS, *map(list, zip(*keys, strict=True)))


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
    language = guess_language(next(iter(segments)).text)
    return "" if language is None else "." if language == "english" else ","
