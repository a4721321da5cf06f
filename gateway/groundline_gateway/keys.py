"""API keys in PostgreSQL: creating, listing, revoking and following them."""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from groundline_database import DatabaseSettings, Pool, database_errors, migrations_of
from pydantic_settings import SettingsConfigDict

from groundline_gateway.scopes import Scope
from groundline_gateway.settings import CLIENT_PATTERN, PRINCIPAL_PATTERN

SCHEMA: Final = {"gateway": len(migrations_of("gateway"))}
"""Version of the tables that this module needs."""

_COLUMNS: Final = "key_id, name, principals, scopes, create_time, expire_time, revoke_time, last_use_time"


class KeyDatabaseSettings(DatabaseSettings):
    """Database settings of the gateway: one query at a time."""

    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_GATEWAY_")

    pool_max_size: int = 1


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of a key, and the key's scopes."""

    client: str
    principals: Sequence[str]
    scopes: Sequence[Scope]
    expire_time: datetime | None = None
    key_id: str | None = None
    """Id of the key; None for a key of the settings."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is listed; its text is shown once, when it is created."""

    key_id: str
    name: str
    principals: Sequence[str]
    scopes: Sequence[Scope]
    create_time: datetime
    expire_time: datetime | None
    revoke_time: datetime | None
    last_use_time: datetime | None
    """Time of a call with it, up to two hours before the last; None: none is known."""
    secret: str | None = field(default=None, repr=False)
    """Text of the key; only create() sets it."""

    def state(self, now: datetime) -> str:
        """Return active, expired or revoked."""
        if self.revoke_time is not None:
            return "revoked"
        return "expired" if self.expire_time is not None and self.expire_time <= now else "active"


def key_hash(key: str) -> str:
    """Return the hash under which a key is stored: SHA-256 in hexadecimal, as identity.lua computes it."""
    return hashlib.sha256(key.encode("ascii")).hexdigest()


def name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a new key; None if it is right."""
    if re.fullmatch(CLIENT_PATTERN, name):
        return None
    return "1 to 64 letters, digits, dots, dashes and underscores"


def principal_problem(principal: str) -> str | None:
    """Return what is wrong with a principal of a new key; None if it is right."""
    if re.fullmatch(PRINCIPAL_PATTERN, principal):
        return None
    return "1 to 128 visible ASCII characters without a comma, not *, such as user:alice"


def expiry_problem(expire_time: datetime, now: datetime) -> str | None:
    """Return what is wrong with the time at which a new key expires; None if it is right."""
    return "is in the past" if expire_time <= now else None


class KeyStore:
    """The table api_keys. Every method raises UnavailableError when the database cannot be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(
        self,
        name: str,
        principals: Sequence[str],
        scopes: Sequence[Scope],
        expire_time: datetime | None,
    ) -> Key:
        """Create a key of 192 random bits; its text is in `secret`, and is stored nowhere."""
        key_id = secrets.token_hex(4)
        # 44 characters: one block of SHA-256, and a prefix by which scanners find keys that leaked.
        secret = f"glk_{key_id}{secrets.token_urlsafe(24)}"
        with database_errors():
            row = await self._pool.fetchrow(
                f"""
                INSERT INTO api_keys (key_id, name, hash, principals, scopes, expire_time)
                VALUES ($1, $2, $3, $4, $5, $6) RETURNING {_COLUMNS}
                """,  # noqa: S608
                key_id,
                name,
                bytes.fromhex(key_hash(secret)),
                list(principals),
                list(scopes),
                expire_time,
            )
        assert row is not None
        return Key(**row, secret=secret)

    async def list_keys(self) -> Sequence[Key]:
        """List every key, the newest first."""
        with database_errors():
            rows = await self._pool.fetch(
                f"SELECT {_COLUMNS} FROM api_keys ORDER BY create_time DESC, key_id DESC"  # noqa: S608
            )
        return [Key(**row) for row in rows]

    async def page(self, after: str, size: int) -> Sequence[Key]:
        """List keys in the order of list_keys(), from the one behind this id on; from the first on if it is
        empty."""
        with database_errors():
            rows = await self._pool.fetch(
                f"""
                SELECT {_COLUMNS} FROM api_keys
                WHERE $1 = '' OR (create_time, key_id) < (
                    SELECT create_time, key_id FROM api_keys WHERE key_id = $1
                )
                ORDER BY create_time DESC, key_id DESC LIMIT $2
                """,  # noqa: S608
                after,
                size,
            )
        return [Key(**row) for row in rows]

    async def revoke_one(self, key_id: str) -> Key | None:
        """Revoke the key of this id, unless it is revoked already; return it; None for an unknown id."""
        with database_errors():
            row = await self._pool.fetchrow(
                f"""
                UPDATE api_keys SET revoke_time = coalesce(revoke_time, now())
                WHERE key_id = $1 RETURNING {_COLUMNS}
                """,  # noqa: S608
                key_id,
            )
        return None if row is None else Key(**row)

    async def revoke(self, key: str) -> Sequence[Key]:
        """Revoke the key of this id, or every key of this name; return those that were valid until now."""
        with database_errors():
            rows = await self._pool.fetch(
                f"""
                UPDATE api_keys SET revoke_time = now()
                WHERE (key_id = $1 OR name = $1) AND revoke_time IS NULL RETURNING {_COLUMNS}
                """,  # noqa: S608
                key,
            )
        return [Key(**row) for row in rows]

    async def note_uses(self, times: Mapping[str, datetime], every: timedelta) -> None:
        """Note when keys were last used, unless that was done in the time before; a role that may not write
        it notes nothing."""
        with database_errors():
            if await self._pool.fetchval(
                "SELECT has_column_privilege('api_keys', 'last_use_time', 'UPDATE')"
            ):
                await self._pool.execute(
                    """
                    UPDATE api_keys AS key SET last_use_time = used.time
                    FROM unnest($1::text[], $2::timestamptz[]) AS used (key_id, time)
                    WHERE key.key_id = used.key_id
                        AND (key.last_use_time IS NULL OR key.last_use_time <= used.time - $3::interval)
                    """,
                    list(times),
                    list(times.values()),
                    every,
                )

    async def holders(self) -> dict[str, Holder]:
        """Return holders by the hashes of their keys, without keys that are revoked or expired."""
        with database_errors():
            rows = await self._pool.fetch(
                """
                SELECT encode(hash, 'hex') AS hash, key_id, name, principals, scopes, expire_time
                FROM api_keys
                WHERE revoke_time IS NULL AND (expire_time IS NULL OR expire_time > now()) ORDER BY hash
                """
            )
        return {
            row["hash"]: Holder(
                row["name"], row["principals"], row["scopes"], row["expire_time"], row["key_id"]
            )
            for row in rows
        }
