"""Records of imports, and what became of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundline_database import Pool, acquire
from groundline_indexing.collections import StoredCollection
from groundline_indexing.imports.loading import import_files
from groundline_indexing.imports.preparing import identified, with_vectors
from groundline_indexing.imports.records import BatchResult, given_record
from groundline_indexing.partitions import chunk_table
from groundline_ingestor.domain.work import NewVersion
from groundline_ingestor.settings import IngestorSettings

DIMENSIONS: Final = 8
VECTOR: Final = [0.5] * DIMENSIONS

type Record = Mapping[str, Any]


def written(path: Path, records: Sequence[Record]) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def record(uri: str, text: str = "An old mill by the river.", **fields: Any) -> Record:
    return {"uri": uri, "text": text, "vector": VECTOR, **fields}


def version(given: Record, collection: StoredCollection) -> NewVersion:
    of = given_record(given, DIMENSIONS)
    ready = with_vectors(of, identified(of, collection), collection)
    return NewVersion(ready.version, ready.chunks, ready.vectors, ready.segments)


async def imported(settings: IngestorSettings, *paths: Path, **options: Any) -> BatchResult:
    return await import_files(settings, "docs", paths, processes=1, **options)


async def texts(pool: Pool) -> dict[str, list[str]]:
    """Return the chunks that a search may find, by uri."""
    async with acquire(pool) as connection:
        partition_id = await connection.fetchval(
            "SELECT partition_id FROM collections WHERE collection_id = 'docs'"
        )
        rows = await connection.fetch(
            f"SELECT d.uri, c.original_text FROM {chunk_table(partition_id)} c "
            "JOIN documents d USING (document_id) WHERE c.collection_id = 'docs' ORDER BY uri, chunk_index"
        )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["uri"], []).append(row["original_text"])
    return found


async def leftovers(pool: Pool) -> list[str]:
    """Return tables of imports."""
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND (relname LIKE 'imported_p%' "
            "OR relname LIKE 'chunks_p%' AND NOT relispartition)"
        )
    return [row["relname"] for row in rows]
