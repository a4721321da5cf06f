"""Pages as runs of web sources last saw them, in PostgreSQL."""

from datetime import UTC

from groundline.v1 import collector_service_pb2 as pb
from groundline_database import Pool, acquire


class PostgresSeenPages:
    """A SeenPages in PostgreSQL."""

    def __init__(self, pool: Pool, source_id: str) -> None:
        self._pool = pool
        self._source_id = source_id

    async def recall(self, url: str) -> pb.SeenPage | None:
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                """
                SELECT p.*, p.uri = '' OR EXISTS (
                    SELECT FROM source_documents s JOIN documents d USING (collection_id, uri)
                    WHERE s.source_id = p.source_id AND s.uri = p.uri AND s.version = p.version
                ) AS is_current
                FROM seen_pages p WHERE p.source_id = $1::uuid AND p.url = $2
                """,
                self._source_id,
                url,
            )
        if row is None:
            return None
        return pb.SeenPage(
            url=row["url"],
            uri=row["uri"],
            version=row["version"],
            links=row["links"],
            read_time=row["read_time"],
            etag=row["etag"],
            last_modified=row["last_modified"],
            is_current=row["is_current"],
        )

    async def note(self, page: pb.SeenPage) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                """
                INSERT INTO seen_pages (source_id, url, uri, version, links, read_time, etag, last_modified)
                SELECT source_id, $2, $3, $4, $5, $6, $7, $8 FROM sources WHERE source_id = $1::uuid
                ON CONFLICT (source_id, url) DO UPDATE SET
                    uri = excluded.uri, version = excluded.version, links = excluded.links,
                    read_time = excluded.read_time, etag = excluded.etag,
                    last_modified = excluded.last_modified, seen_time = excluded.seen_time
                """,
                self._source_id,
                page.url,
                page.uri,
                page.version,
                list(page.links),
                page.read_time.ToDatetime(UTC),
                page.etag,
                page.last_modified,
            )

    async def forget(self, *, unseen_seconds: float) -> None:
        async with acquire(self._pool) as connection:
            await connection.execute(
                """
                DELETE FROM seen_pages
                WHERE source_id = $1::uuid AND seen_time < clock_timestamp() - make_interval(secs => $2)
                """,
                self._source_id,
                unseen_seconds,
            )
