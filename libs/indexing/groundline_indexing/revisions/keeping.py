"""Revisions of documents: what is kept of one when it is replaced.

The revision in use is the document itself. When it is about to change, `keep_revisions` writes down what its
collection or a kept answer wants of it; when it has changed, `settle_revisions` drops what is the one in use
again, or more than wanted.
"""

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from itertools import batched
from typing import Any, Final

import asyncpg
from groundline_database import Connection, current_revision, is_held_document, read_statements

from groundline_indexing.revisions.layouts import Layout, StoredSegments
from groundline_indexing.revisions.past import close_revisions, note_revisions
from groundline_indexing.revisions.segments import SegmentCutter

TEXT_CHARACTERS: Final = 1_800
"""Maximum characters of a row of stored text; larger rows would be stored in a table beside theirs, and read
from there for each piece of a line."""

ROWS_AT_ONCE: Final = 100

LARGE_PARTS: Final = 64
"""Parts of a text, of a million characters each, beyond which its segments have LINES lines, so that those of
500 MB fit into memory."""

LINES: Final = 4

ORIGINALS_AT_ONCE: Final = 8
"""Parts of what was handed in that one statement copies of each document, of 1 MiB each; one for 500 MB might
take longer than a statement may."""

_SQL: Final = read_statements(__name__, current=current_revision("d"), is_held=is_held_document("r"))


async def keep_revisions(connection: Connection, document_ids: Sequence[Any]) -> None:
    """Write down the revisions in use of documents, whose rows the transaction has locked, as far as their
    collections keep them or answers cite them; and which chunks they have, where the past is searchable."""
    if not document_ids:
        return
    await note_revisions(connection, document_ids)
    for row in await connection.fetch(_SQL["wanted"], document_ids):
        document_id = row["document_id"]
        if await connection.fetchval(_SQL["keep_again"], document_id):
            continue
        text = await _keep_text(connection, document_id)
        await connection.execute(_SQL["keep"], document_id, *text)
        await connection.execute(_SQL["keep_pages"], document_id)
        await copy_originals(connection, _SQL["keep_original"], document_id)


async def copy_originals(connection: Connection, statement: str, *arguments: Any) -> None:
    """Copy what was handed in, some parts at a time, by a statement that takes the first and the last of them
    as well and returns the last that it copied."""
    first, last = 0, ORIGINALS_AT_ONCE - 1
    while await connection.fetchval(statement, *arguments, first, last) == last:
        first, last = first + ORIGINALS_AT_ONCE, last + ORIGINALS_AT_ONCE


async def settle_revisions(connection: Connection, document_ids: Sequence[Any]) -> None:
    """Drop, of documents that have just changed, the revisions that are in use again, and those beyond what
    is to be kept; and the tables of what is neither in use nor kept."""
    if document_ids:
        await close_revisions(connection, document_ids)
    stale = await connection.fetch(_SQL["settle"], document_ids) if document_ids else ()
    changed = [row["document_id"] for row in stale]
    if changed:
        for statement in (
            _SQL["drop_segments"],
            _SQL["drop_layouts"],
            _SQL["drop_texts"],
            _SQL["drop_originals"],
        ):
            await connection.execute(statement, changed)
    if document_ids:
        await connection.execute(_SQL["drop_tables"], document_ids)


async def prune_revisions(connection: Connection, limit: int) -> int:
    """Drop the revisions that nothing keeps any more, of `limit` documents at most; return how many
    documents had such. In a transaction: their rows are locked first, so that an answer that is being stored
    keeps what it cites."""
    rows = await connection.fetch(_SQL["prunable"], limit)
    await settle_revisions(connection, [row["document_id"] for row in rows])
    return len(rows)


async def _keep_text(connection: Connection, document_id: Any) -> tuple[int, int | None, int]:
    """Store of a document's text what is not stored yet; return its layout's number, the one of the base that
    it has if that makes it smaller, and the text's size in characters."""
    parts = await connection.fetchval(_SQL["count_parts"], document_id)
    lines = LINES if parts > LARGE_PARTS else 1
    stored = StoredSegments()
    cursor = await connection.cursor(_SQL["texts"], document_id)
    while rows := await cursor.fetch(ROWS_AT_ONCE):
        await asyncio.to_thread(_read, rows, lines, stored)
    numbers, size = array("i"), 0
    cutter = SegmentCutter(lines)
    for part in range(parts + 1):
        text = await connection.fetchval(
            "SELECT text FROM document_texts WHERE document_id = $1 AND part = $2", document_id, part
        )
        place = stored.end
        found, new = await asyncio.to_thread(_find, text, cutter, stored)
        numbers.extend(found)
        size += len(text or "")
        if new:
            await connection.copy_records_to_table(
                "revision_texts",
                records=[(document_id, *row) for row in _texts(new, place)],
                columns=("document_id", "place", "character_count", "text"),
            )
    known = await connection.fetchrow(_SQL["layouts"], document_id)
    assert known is not None, "aggregates have a row"
    layout, base = await asyncio.to_thread(stored.layout, numbers), known["base"]
    if base is not None:
        rows = await connection.fetch(_SQL["stretches"], document_id, base)
        stretches = Layout.of((row["sources"], row["lengths"]) for row in rows)
        differences = await asyncio.to_thread(stored.differences, numbers, stretches)
        # A new base begins once all differences from this one have more stretches than it would.
        if known["differences"] + len(differences.sources) <= len(layout.sources):
            layout = differences
        else:
            base = None
    await _copy_layout(connection, (document_id, known["following"]), layout)
    return known["following"], base, size


async def _copy_layout(connection: Connection, key: tuple[Any, int], layout: Layout) -> None:
    for rows in batched(layout.rows(), ROWS_AT_ONCE):
        await connection.copy_records_to_table(
            "revision_layouts",
            records=[(*key, *row) for row in rows],
            columns=("document_id", "layout", "start_offset", "sources", "lengths"),
        )


def _read(rows: Sequence[asyncpg.Record], lines: int, stored: StoredSegments) -> None:
    """Take the segments of stored texts; one at a row's end may be cut otherwise, and then is not found."""
    for row in rows:
        cutter = SegmentCutter(lines)
        stored.put([*cutter.feed(row["text"]), *cutter.end()], row["place"])


def _find(text: str | None, cutter: SegmentCutter, stored: StoredSegments) -> tuple[list[int], list[str]]:
    """Return the numbers of a part's segments, None is the end, and those that were not stored."""
    return stored.find(list(cutter.end() if text is None else cutter.feed(text)))


def _texts(segments: Sequence[str], place: int) -> Iterator[tuple[int, int, str]]:
    """Yield segments together, by place and number of characters, up to TEXT_CHARACTERS or a longer one."""
    held: list[str] = []
    size = 0
    for segment in segments:
        if held and size + len(segment) > TEXT_CHARACTERS:
            yield place, size, "".join(held)
            held, place, size = [], place + size, 0
        held.append(segment)
        size += len(segment)
    if held:
        yield place, size, "".join(held)
