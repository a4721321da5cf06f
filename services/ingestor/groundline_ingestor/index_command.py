"""`groundline-ingestor index`: care of the search index outside PostgreSQL.

A command of the operator, beside `migrate`: it concerns all collections, and needs the database and the
index, whereas keys at the gateway give rights on collections only.
"""

import argparse
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from groundline_database import open_pool, register_vectors, require_schema
from groundline_indexing.feed.changes import IndexWriter, PartitionState
from groundline_indexing.feed.feeding import Comparison, Feeding, compare
from groundline_indexing.feed.state import IndexFeed
from groundline_indexing.feed.weaviate import WeaviateIndex
from groundline_runtime.errors import FailedPreconditionError, NotFoundError
from groundline_runtime.serving.server import run_command
from groundline_weaviate import open_weaviate

from groundline_ingestor.migrate import SCHEMA
from groundline_ingestor.settings import IndexSettings

HINT: Final = "`%(prog)s index --help` tells of the search index outside PostgreSQL."

PROGRESS_SECONDS: Final = 2.0

_DESCRIPTION: Final = """
The search index outside PostgreSQL that ingestors feed where GROUNDLINE_WEAVIATE__HTTP_URL and
GROUNDLINE_WEAVIATE__GRPC_TARGET are set. Every action may be interrupted and repeated; searches and ingestion
go on meanwhile.
"""


@dataclass(frozen=True, slots=True)
class _Index:
    feed: IndexFeed
    index: IndexWriter
    collection_id: str | None

    async def partitions(self) -> Sequence[PartitionState]:
        """Return the selected partitions. Raises NotFoundError, or FailedPreconditionError without such an
        index."""
        found = await self.feed.partitions(self.collection_id)
        if found:
            return found
        if self.collection_id is not None and await self.feed.partitions():
            raise NotFoundError("COLLECTION_NOT_FOUND", f"no collection {self.collection_id!r}")
        raise FailedPreconditionError(
            "NOT_USABLE", "no index is fed yet: start an ingestor with GROUNDLINE_WEAVIATE__HTTP_URL"
        )


async def _status(command: _Index) -> None:
    """Show the progress of the index, by partition."""
    rows = [("partition", "collection", "chunks", "in the index", "waiting", "set aside", "behind")]
    for state in await command.partitions():
        shared = "(shared)" if not state.is_gone else "(deleted)"
        rows.append(
            (
                str(state.partition.partition_id),
                state.collection_id or shared,
                str(state.chunk_count),
                "to be deleted" if state.is_gone else _filled(state),
                str(state.pending_count),
                str(state.set_aside_count),
                f"{state.behind_seconds:.0f} s",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _rebuild(command: _Index) -> None:
    """Fill the index again from PostgreSQL; ingestors continue it when this command ends early."""
    wanted = {state.partition.partition_id for state in await command.partitions() if not state.is_gone}
    await command.feed.refill(sorted(wanted))
    feeding = Feeding(command.feed, command.index)
    begun = shown = time.monotonic()
    while True:
        # Partitions that an ingestor holds at this moment are skipped.
        await feeding.round()
        states = [
            state
            for state in await command.feed.partitions(command.collection_id)
            if state.partition.partition_id in wanted and not state.is_gone
        ]
        filled = sum(state.filled_count for state in states)
        is_filled = all(state.is_filled for state in states)
        if is_filled or time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            total = max(filled, sum(state.chunk_count for state in states))
            rate = filled / max(shown - begun, 0.001)
            left = "" if is_filled else f", {(total - filled) / max(rate, 0.001):.0f} s left"
            _say(f"{filled} of {filled if is_filled else total} chunks, {rate:.0f}/s{left}")
        if is_filled:
            return


async def _verify(command: _Index) -> None:
    """Compare ids and content hashes both ways, and queue the differing ones for the index again."""
    total = Comparison()
    for state in await command.partitions():
        if state.is_gone:
            continue
        found, shown = Comparison(), time.monotonic()
        async for found in compare(command.feed, command.index, state.partition):
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                _say(f"partition {state.partition.partition_id}: {_told(found)}")
        if found.repaired:
            _say(f"partition {state.partition.partition_id}: {_told(found)}")
        total += found
    _say(_told(total))
    if total.repaired:
        _say(f"{total.repaired} are taken to the index again by the ingestors; see `status`")


async def _retry(command: _Index) -> None:
    """Try again the chunks that the index refused too often."""
    _say(f"{await command.feed.retry()} chunks are tried again")


async def _stop(command: _Index) -> None:
    """Stop recording changes; first unset GROUNDLINE_WEAVIATE__… of ingestors, or they begin again."""
    await command.feed.end()
    _say("changes are no longer recorded; what the index holds stays there")


_ACTIONS: Final[Mapping[str, Callable[[_Index], Awaitable[None]]]] = {
    "status": _status,
    "rebuild": _rebuild,
    "verify": _verify,
    "retry": _retry,
    "stop": _stop,
}


def main(argv: Sequence[str]) -> None:
    """Run `groundline-ingestor index ACTION [--collection ID] [--settings FILE]`; exits as run_command
    does."""
    parser = argparse.ArgumentParser(prog="groundline-ingestor index", description=_DESCRIPTION)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, act in _ACTIONS.items():
        action = actions.add_parser(name, help=act.__doc__, description=act.__doc__)
        action.add_argument("--settings", metavar="FILE", help="read settings from a dotenv file")
        if name in ("status", "rebuild", "verify"):
            action.add_argument("--collection", metavar="ID", help="only its partition")
    options = parser.parse_args(argv)
    act, collection_id = _ACTIONS[options.action], getattr(options, "collection", None)

    async def command(settings: IndexSettings) -> None:
        async with _open(settings, collection_id) as opened:
            await act(opened)

    run_command(IndexSettings, command, ["--settings", options.settings] if options.settings else [])


@asynccontextmanager
async def _open(settings: IndexSettings, collection_id: str | None) -> AsyncIterator[_Index]:
    async with (
        open_pool(settings, init=register_vectors) as pool,
        open_weaviate(settings.weaviate) as weaviate,
    ):
        await require_schema(pool, SCHEMA)
        yield _Index(IndexFeed(pool), WeaviateIndex(weaviate), collection_id)


def _filled(state: PartitionState) -> str:
    return "all" if state.is_filled else f"{state.filled_count}, being filled"


def _told(found: Comparison) -> str:
    return (
        f"{found.compared} chunks compared: {found.missing} missing, {found.different} different, "
        f"{found.surplus} surplus"
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
