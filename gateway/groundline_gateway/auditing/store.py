"""The audit log in PostgreSQL: appended to, read, and shortened at its beginning."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from groundline_database import Connection, Pool, acquire, transaction

from groundline_gateway.auditing.entries import LOST, PRUNED, AuditEntry, Chain, ChainError

READ_AT_ONCE: Final = 1000
SEARCHED_FOR_A_PAGE: Final = 10_000
"""Maximum number of entries that are searched for those of one page."""


# The conditions are those of an AuditQuery, in its order.
_SELECT: Final = """
    SELECT entry_id, entry, hash FROM audit_entries
    WHERE ($1::timestamptz IS NULL OR time >= $1) AND ($2::timestamptz IS NULL OR time < $2)
      AND ($3::text IS NULL OR entry ->> 'client' = $3)
      AND ($4::text IS NULL OR entry ->> 'action' = $4)
      AND ($5::text IS NULL OR starts_with(entry ->> 'resource', $5))
"""

# By the index of times; the conditions on fields are looked at in what it brings.
_SEARCHED: Final = """
    SELECT entry_id, time, entry, hash FROM audit_entries
    WHERE time >= coalesce($1::timestamptz, '-infinity') AND time < coalesce($2::timestamptz, 'infinity')
      AND time <= coalesce($3::timestamptz, 'infinity')
      AND ($3::timestamptz IS NULL OR (time, entry_id) < ($3, $4::bigint))
    ORDER BY time DESC, entry_id DESC
"""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Conditions on entries; None: any."""

    since: datetime | None = None
    until: datetime | None = None
    client: str | None = None
    action: str | None = None
    resource: str | None = None
    """Beginning of the resource."""


class AuditStore:
    """The tables of the audit log. Every method raises UnavailableError when the database cannot be
    reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def position(self, log_id: UUID) -> int:
        """Return the bytes of a gateway's log that have become entries."""
        async with acquire(self._pool) as connection:
            return int(
                await connection.fetchval("SELECT position FROM audit_positions WHERE log_id = $1", log_id)
                or 0
            )

    async def append(self, log_id: UUID, position: int, found: Sequence[Mapping[str, Any]]) -> None:
        """Append entries by their fields, and remember the position of the log behind them, in one
        transaction."""
        async with transaction(self._pool) as connection:
            await _append(connection, found)
            await connection.execute(
                """
                INSERT INTO audit_positions (log_id, position) VALUES ($1, $2)
                ON CONFLICT (log_id) DO UPDATE SET position = excluded.position, update_time = now()
                """,
                log_id,
                position,
            )

    async def forget(self, log_id: UUID) -> None:
        """Forget the position of a log that is gone."""
        async with acquire(self._pool) as connection:
            await connection.execute("DELETE FROM audit_positions WHERE log_id = $1", log_id)

    async def prune(self, days: int) -> int:
        """Delete the oldest entries, up to the first that is younger; return the number of the last one that
        was deleted, or 0. An entry tells it."""
        async with transaction(self._pool) as connection:
            # Nobody appends meanwhile.
            await connection.execute("SELECT FROM audit_head FOR UPDATE")
            last = await connection.fetchval(
                """
                WITH gone AS (
                    DELETE FROM audit_entries WHERE entry_id < coalesce(
                        (SELECT min(entry_id) FROM audit_entries
                         WHERE time >= now() - make_interval(days => $1)),
                        (SELECT entry_id + 1 FROM audit_head)
                    ) RETURNING entry_id
                )
                SELECT coalesce(max(entry_id), 0) FROM gone
                """,
                days,
            )
            if last:
                await _append(connection, [_own(PRUNED, str(last))])
            await connection.execute(
                "DELETE FROM audit_positions WHERE update_time < now() - make_interval(days => $1)", days
            )
        return int(last)

    async def read(self, wanted: AuditQuery) -> AsyncIterator[AuditEntry]:
        """Yield entries, the oldest first."""
        after = 0
        while True:
            async with acquire(self._pool) as connection:
                rows = await connection.fetch(
                    f"{_SELECT} AND entry_id > $6 ORDER BY entry_id LIMIT $7",
                    *astuple(wanted),
                    after,
                    READ_AT_ONCE,
                )
            for row in rows:
                yield AuditEntry(*row)
            if len(rows) < READ_AT_ONCE:
                return
            after = rows[-1]["entry_id"]

    async def latest(self, wanted: AuditQuery, limit: int) -> Sequence[AuditEntry]:
        """Return the last `limit` entries, the oldest first."""
        async with acquire(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SELECT} ORDER BY entry_id DESC LIMIT $6", *astuple(wanted), limit
            )
        return [AuditEntry(*row) for row in reversed(rows)]

    async def page(
        self, wanted: AuditQuery, before: int | None, size: int
    ) -> tuple[Sequence[AuditEntry], int | None]:
        """Return at most `size` entries by their times, the newest first, from behind the entry of the number
        `before` on; and the number from behind which the next page begins, None if nothing is left.

        SEARCHED_FOR_A_PAGE entries are searched at most, so there may be fewer, and yet another page.
        """
        async with acquire(self._pool) as connection:
            start = None
            if before is not None:
                start = await connection.fetchval(
                    "SELECT time FROM audit_entries WHERE entry_id = $1", before
                )
                if start is None:  # retention has deleted it, and what was older
                    return [], None
            place = (wanted.since, wanted.until, start, before)
            rows = await connection.fetch(
                f"""
                SELECT entry_id, entry, hash FROM ({_SEARCHED} LIMIT $5) AS searched
                WHERE ($6::text IS NULL OR entry ->> 'client' = $6)
                  AND ($7::text IS NULL OR entry ->> 'action' = $7)
                  AND ($8::text IS NULL OR starts_with(entry ->> 'resource', $8))
                ORDER BY time DESC, entry_id DESC LIMIT $9
                """,  # noqa: S608
                *place,
                SEARCHED_FOR_A_PAGE,
                wanted.client,
                wanted.action,
                wanted.resource,
                size + 1,
            )
            found = [AuditEntry(*row) for row in rows[:size]]
            if len(rows) > size:
                return found, found[-1].entry_id
            last = await connection.fetchval(
                f"SELECT entry_id FROM ({_SEARCHED} OFFSET $5 LIMIT 1) AS last",  # noqa: S608
                *place,
                SEARCHED_FOR_A_PAGE - 1,
            )
        return found, last

    async def verify(self) -> tuple[AuditEntry | None, int]:
        """Check the chain of all entries; return the last one, and up to which number retention has deleted
        some. Raises ChainError."""
        chain = Chain()
        async with acquire(self._pool) as connection:
            end, head = await connection.fetchrow("SELECT entry_id, hash FROM audit_head") or (0, b"")
        async for entry in self.read(AuditQuery()):
            chain.add([entry])
            if entry.entry_id == end and entry.hash != head:
                raise ChainError(f"entry {end} was changed")
        if end and (chain.last is None or chain.last.entry_id < end):
            raise ChainError(f"entry {end} is missing")
        return chain.last, chain.end()

    async def find(self, entry_id: int) -> AuditEntry | None:
        """Return an entry by its number, or None."""
        async with acquire(self._pool) as connection:
            row = await connection.fetchrow(
                "SELECT entry_id, entry, hash FROM audit_entries WHERE entry_id = $1", entry_id
            )
        return AuditEntry(*row) if row else None


async def _append(connection: Connection, found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        return
    head = await connection.fetchrow("SELECT entry_id, hash FROM audit_head FOR UPDATE")
    assert head is not None, "the migration has made it"
    entry_id, previous = head
    rows = []
    for fields in found:
        entry_id += 1
        previous = AuditEntry(entry_id, fields, b"").digest(previous)
        rows.append((entry_id, datetime.fromisoformat(fields["time"]), fields, previous))
    await connection.copy_records_to_table(
        "audit_entries", records=rows, columns=("entry_id", "time", "entry", "hash")
    )
    await connection.execute("UPDATE audit_head SET entry_id = $1, hash = $2", entry_id, previous)


def lost(size: int) -> Mapping[str, Any]:
    """Return the fields of an entry that tells of bytes of a log that became none."""
    return _own(LOST, str(size))


def _own(action: str, resource: str) -> Mapping[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"time": now, "client": "groundline-gateway", "action": action, "resource": resource}
