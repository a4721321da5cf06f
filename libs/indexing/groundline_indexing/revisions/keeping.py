"""Revisions of documents: what is kept of one when it is replaced.

The revision in use is the document itself. When it is about to change, `keep_revisions` writes down what its
collection or a kept answer wants of it; when it has changed, `settle_revisions` drops what is the one in use
again, or more than wanted.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from groundline_database import Connection, current_revision, is_held_document, read_statements

from groundline_indexing.revisions.numbers import DIGEST_BYTES, SegmentNumbers
from groundline_indexing.revisions.past import close_revisions, note_revisions
from groundline_indexing.revisions.segments import SegmentCutter

__all__ = ["copy_originals", "keep_revisions", "prune_revisions", "settle_revisions"]

MAX_RUN: Final = 256
"""Maximum segments of a run: with the number below, a bound of what is read for an excerpt."""

RUNS_TO_START: Final = 16
"""Number of runs from one whose start is stored to the next, as the function `document_text` has it."""

DIGESTS_AT_ONCE: Final = 10_000

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
        text = await _keep_text(connection, row["document_id"])
        await connection.execute(_SQL["keep"], row["document_id"], *text)
        await connection.execute(_SQL["keep_pages"], row["document_id"])
        await copy_originals(connection, _SQL["keep_original"], row["document_id"])


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
        for statement in (_SQL["drop_segments"], _SQL["drop_originals"]):
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


async def _keep_text(connection: Connection, document_id: Any) -> tuple[list[int], list[int], list[int], int]:
    """Store the segments of a document's text that are new; return the runs of the numbers of all, by the
    first of each and their number, where every RUNS_TO_START-th begins, and the text's size in characters."""
    numbers = SegmentNumbers()
    stored = await connection.cursor(
        "SELECT digest, segment FROM revision_segments WHERE document_id = $1", document_id
    )
    while rows := await stored.fetch(DIGESTS_AT_ONCE):
        await asyncio.to_thread(numbers.put, *zip(*rows, strict=True))
    following = numbers.following
    firsts: list[int] = []
    counts: list[int] = []
    starts: list[int] = []
    size, part = 0, 0
    cutter = SegmentCutter()
    is_complete = False
    while not is_complete:
        text = await connection.fetchval(
            "SELECT text FROM document_texts WHERE document_id = $1 AND part = $2", document_id, part
        )
        is_complete = text is None
        segments = cutter.end() if text is None else cutter.feed(text)
        cut, known = await asyncio.to_thread(_digested, segments, numbers)
        new: list[tuple[Any, int, bytes, str]] = []
        for digest, segment in cut:
            if digest not in known:
                known[digest] = following
                new.append((document_id, following, digest, segment))
                following += 1
            if firsts and known[digest] == firsts[-1] + counts[-1] and counts[-1] < MAX_RUN:
                counts[-1] += 1
            else:
                if len(firsts) % RUNS_TO_START == 0:
                    starts.append(size)
                firsts.append(known[digest])
                counts.append(1)
            size += len(segment)
        if new:
            await connection.copy_records_to_table(
                "revision_segments", records=new, columns=("document_id", "segment", "digest", "text")
            )
            _, added, digests, _ = zip(*new, strict=True)
            await asyncio.to_thread(numbers.put, digests, added)
        part += 1
    return firsts, counts, starts, size


def _digested(
    segments: Iterator[str], numbers: SegmentNumbers
) -> tuple[list[tuple[bytes, str]], dict[bytes, int]]:
    """Return segments with their digests, and the numbers of those that are known."""
    cut = [(hashlib.blake2b(each.encode(), digest_size=DIGEST_BYTES).digest(), each) for each in segments]
    return cut, numbers.find([digest for digest, _ in cut])
