"""Keys that all replicas of a service share."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from groundline_runtime.errors import UnavailableError

from groundline_database.errors import database_errors
from groundline_database.pool import Pool

_INSERT: Final = """
    INSERT INTO signing_keys (key_id, public_key, private_key, create_time)
    VALUES ($1, $2, $3, clock_timestamp()) ON CONFLICT DO NOTHING
"""


async def page_token_key(pool: Pool, service: str) -> bytes:
    """Read the key with which a service signs its page tokens; its migrations make it. Raises
    UnavailableError."""
    with database_errors():
        key = await pool.fetchval(f"SELECT key FROM {service}_page_token_key")  # noqa: S608 - a constant
    assert isinstance(key, bytes)
    return key


@dataclass(frozen=True, slots=True)
class StoredSigningKey:
    """Public half of a key pair of Ed25519, 32 bytes."""

    public_key: bytes
    create_time: datetime
    retire_time: datetime | None


class SigningKeyStore:
    """The table signing_keys, which the coordinator's migrations make.

    Every method raises UnavailableError when the database cannot be reached.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add_first(self, key_id: str, public_key: bytes, private_key: bytes) -> None:
        """Store a key unless there is one in use."""
        with database_errors():
            await self._pool.execute(_INSERT, key_id, public_key, private_key)

    async def replace(self, key_id: str, public_key: bytes, private_key: bytes) -> None:
        """Store a key in place of the one in use, whose private half is deleted."""
        with database_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE")
                await connection.execute(
                    "UPDATE signing_keys SET retire_time = clock_timestamp(), private_key = NULL "
                    "WHERE retire_time IS NULL"
                )
                await connection.execute(_INSERT, key_id, public_key, private_key)

    async def in_use(self) -> tuple[bytes, datetime]:
        """Return the private half of the key in use, and the database's time. Raises UnavailableError as long
        as there is no key."""
        with database_errors():
            row = await self._pool.fetchrow(
                "SELECT private_key, clock_timestamp() AS now FROM signing_keys WHERE retire_time IS NULL"
            )
        if row is None:
            raise UnavailableError(
                "UNAVAILABLE",
                "there is no key to sign with yet; the coordinator makes it when it starts",
                retry_after_seconds=5.0,
            )
        return row["private_key"], row["now"]

    async def list_keys(self) -> Sequence[StoredSigningKey]:
        """List every key, the newest first."""
        with database_errors():
            rows = await self._pool.fetch(
                "SELECT public_key, create_time, retire_time FROM signing_keys "
                "ORDER BY create_time DESC, key_id"
            )
        return [StoredSigningKey(**row) for row in rows]
