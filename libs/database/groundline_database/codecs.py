"""How connections read and write jsonb, uuid and halfvec."""

import json
import uuid
from typing import Any, Final

import asyncpg

__all__ = ["register_codecs", "register_vectors"]

# The binary form of jsonb is a version byte, which has been 1 since there is one, and the text. All codecs
# are binary: COPY takes no text codecs.
_JSONB_VERSION: Final = b"\x01"


async def register_codecs(connection: "asyncpg.Connection[Any]") -> None:
    """jsonb as values, uuid as canonical text (UUID objects are taken too)."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="binary", encoder=_encode_jsonb, decoder=_decode_jsonb
    )
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", format="binary", encoder=_encode_uuid, decoder=_decode_uuid
    )


async def register_vectors(connection: "asyncpg.Connection[Any]") -> None:
    """halfvec and vector as pgvector's types (extra `vectors`).

    Does nothing before the extension is created: that the schema is missing is for require_schema to say.
    """
    from pgvector.asyncpg import register_vector

    schema = await connection.fetchval(
        """
        SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'
        """
    )
    if schema is not None:
        await register_vector(connection, schema=schema)


def _encode_jsonb(value: Any) -> bytes:
    return _JSONB_VERSION + json.dumps(value, ensure_ascii=False).encode()


def _decode_jsonb(data: bytes) -> Any:
    return json.loads(bytes(data)[len(_JSONB_VERSION) :])


def _encode_uuid(value: str | uuid.UUID) -> bytes:
    return (value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes


def _decode_uuid(data: bytes) -> str:
    # By way of a UUID object it takes four times as long.
    digits = bytes(data).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
