"""Keys that all replicas of a service share."""

from groundline_database.errors import database_errors
from groundline_database.pool import Pool

__all__ = ["page_token_key"]


async def page_token_key(pool: Pool, service: str) -> bytes:
    """Read the key with which a service signs its page tokens; its migrations make it. Raises
    UnavailableError."""
    with database_errors():
        key = await pool.fetchval(f"SELECT key FROM {service}_page_token_key")  # noqa: S608 - a constant
    assert isinstance(key, bytes)
    return key
