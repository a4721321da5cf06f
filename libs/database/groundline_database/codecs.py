"""Stored forms of values: codecs of connections, and texts of the contract's enums."""

import json
import math
import uuid
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from groundline_runtime.reasons import enum_label

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

_QUARTILE: Final = 0.6745
"""Distance of the outer quartiles of a normal distribution from its mean, in standard deviations."""

# The binary form of jsonb is a version byte, always 1 so far, and the text. All codecs are binary: COPY takes
# no text codecs.
_JSONB_VERSION: Final = b"\x01"


async def register_codecs(connection: "asyncpg.Connection[Any]") -> None:
    """Register jsonb as values, and uuid as canonical text (UUID objects are accepted too)."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="binary", encoder=_encode_jsonb, decoder=_decode_jsonb
    )
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", format="binary", encoder=_encode_uuid, decoder=_decode_uuid
    )


async def register_vectors(connection: "asyncpg.Connection[Any]") -> None:
    """Register halfvec and vector as pgvector's types (extra `vectors`).

    Does nothing before the extension is created: require_schema reports a missing schema.
    """
    from pgvector.asyncpg import register_vector

    schema = await connection.fetchval(
        """
        SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'
        """
    )
    if schema is not None:
        await register_vector(connection, schema=schema)


def quartile_of(dimensions: int) -> float:
    """Return the upper quartile of what values of unit vectors are about; the lower is its negative."""
    return _QUARTILE / math.sqrt(dimensions)


def quantized(vector: str, dimensions: int) -> str:
    """Return the SQL expression of a unit vector in three bits for each dimension: whether its value is above
    the lower quartile, the middle and the upper quartile of what values of unit vectors are about.

    The Hamming distance of two such is the number of quartiles between them. Why three bits and not the sign
    alone: docs/adr/0046-three-bits-for-a-dimension.md.
    """
    value = f"{vector}::halfvec({dimensions:d})"
    quartile = f"array_fill({quartile_of(dimensions):.4f}::real, ARRAY[{dimensions:d}])::halfvec"
    bits = (f"{value} + {quartile}", value, f"{value} - {quartile}")
    return f"({' || '.join(f'binary_quantize({one})' for one in bits)})::bit({3 * dimensions:d})"


def enum_text(kind: "_EnumTypeWrapper[Any]", value: int) -> str | None:
    """Return the text that is stored for a value, such as "done"; None for the unspecified one."""
    return enum_label(kind, value) if value else None


def read_enum(kind: "_EnumTypeWrapper[Any]", stored: str | None) -> Any:
    """Return the value that a stored text stands for."""
    return kind.Value(_prefix(kind) + stored.upper()) if stored else 0


def _prefix(kind: "_EnumTypeWrapper[Any]") -> str:
    return kind.Name(0).removesuffix("UNSPECIFIED")


def _encode_jsonb(value: Any) -> bytes:
    return _JSONB_VERSION + json.dumps(value, ensure_ascii=False).encode()


def _decode_jsonb(data: bytes) -> Any:
    return json.loads(bytes(data)[len(_JSONB_VERSION) :])


def _encode_uuid(value: str | uuid.UUID) -> bytes:
    return (value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes


def _decode_uuid(data: bytes) -> str:
    # Through a UUID object it would take four times as long.
    digits = bytes(data).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
