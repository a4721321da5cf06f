"""Rows of a query to a PostgreSQL database."""

# ruff: noqa: S608 - the query is what the source says, and may only read; names are quoted

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from string import Formatter
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
from groundline.v1 import passage_pb2, source_pb2
from groundline_runtime.errors import FailedPreconditionError

from groundline_ingestor.adapters.addresses import AddressNotAllowedError, checked_address
from groundline_ingestor.adapters.sources.common import CONNECT_SECONDS, refused, unreachable
from groundline_ingestor.domain.documents import GivenDocument
from groundline_ingestor.domain.sources import Change, Found, Present, Reached, takes_path, uri_prefix

__all__ = ["postgres_changes"]

DEFAULT_STATEMENT_SECONDS: Final = 300
PREFETCHED_ROWS: Final = 200
_PORT: Final = 5432


async def postgres_changes(
    source: source_pb2.DocumentSource, *, url: str, cursor: str, private_addresses: bool
) -> AsyncGenerator[Change, None]:
    """The rows, those below the cursor by their ids alone; a row's version is a hash of its values.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED).
    """
    await _require_allowed(url, private_addresses=private_addresses)
    seconds = source.postgres.statement_timeout_seconds or DEFAULT_STATEMENT_SECONDS
    try:
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=seconds + CONNECT_SECONDS,
            server_settings={
                "application_name": "groundline-ingestor",
                "default_transaction_read_only": "on",
                "statement_timeout": str(seconds * 1000),
            },
        )
    except (OSError, TimeoutError, asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError):
        raise unreachable("the database") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise refused(f"the database refuses the connection ({type(error).__name__})") from None
    try:
        # One snapshot for the rows and the ids.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            async for change in _rows(connection, source, cursor):
                yield change
    except (asyncpg.PostgresConnectionError, OSError, TimeoutError, asyncpg.QueryCanceledError):
        raise unreachable("the database") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # What the server says may quote values.
        raise refused(f"the query fails ({type(error).__name__})") from None
    finally:
        connection.terminate()


async def _require_allowed(url: str, *, private_addresses: bool) -> None:
    """The name is looked up again by the connection, but it is the operator's: it is in the secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host = None
    if host is None or parts.scheme not in {"postgres", "postgresql"}:
        raise refused("the secret holds no URL of a PostgreSQL server")
    try:
        await asyncio.to_thread(checked_address, host, port, private_addresses=private_addresses)
    except AddressNotAllowedError as error:
        raise FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error)) from None
    except OSError:
        raise unreachable("the database") from None


async def _rows(
    connection: "asyncpg.Connection[Any]", source: source_pb2.DocumentSource, cursor: str
) -> AsyncGenerator[Change, None]:
    asked, prefix = source.postgres, uri_prefix(source)
    query = f"(\n{asked.query.strip().removesuffix(';')}\n) AS q"
    path = f"q.{_quoted(asked.id_column)}::text"
    update, condition, values = "NULL::text", "", list[str]()
    if asked.update_column:
        column = f"q.{_quoted(asked.update_column)}"
        update = f"{column}::text"
        if cursor:
            statement = await connection.prepare(f"SELECT {column} FROM {query} LIMIT 0")
            kind = statement.get_attributes()[0].type
            condition = f"WHERE {column} >= $1::text::{_quoted(kind.schema)}.{_quoted(kind.name)}"
            values = [cursor]
        condition += f" ORDER BY {column} NULLS FIRST"
    sql = f"SELECT {path} AS id, to_jsonb(q)::text AS record, {update} AS update FROM {query} {condition}"
    async for row in connection.cursor(sql, *values, prefetch=PREFETCHED_ROWS):
        if row["id"] is None:
            raise refused("id_column is null in a row")
        cursor = row["update"] or cursor
        if takes_path(source, row["id"]):
            digest = hashlib.sha256(row["record"].encode()).hexdigest()
            uri = prefix + row["id"]
            load = partial(_document, asked, uri, row["record"])
            yield Found(uri, digest, load, held_bytes=len(row["record"]))
    if values:
        async for row in connection.cursor(f"SELECT {path} AS id FROM {query}", prefetch=PREFETCHED_ROWS):
            if row["id"] is not None and takes_path(source, row["id"]):
                yield Present(prefix + row["id"])
    yield Reached(cursor, is_complete=True)


def _document(asked: source_pb2.PostgresSource, uri: str, record: str) -> GivenDocument:
    values = json.loads(record)
    is_text = bool(asked.text_template)
    return GivenDocument(
        content=_filled(asked.text_template, values) if is_text else record,
        uri=uri,
        title=_shown(values.get(asked.title_column))[:500],
        source_type=passage_pb2.SOURCE_TYPE_FILE if is_text else passage_pb2.SOURCE_TYPE_OBJECT,
        metadata={name: values[name] for name in asked.metadata_columns if values.get(name) is not None},
    )


def _filled(template: str, values: Mapping[str, Any]) -> str:
    return "".join(
        literal + (_shown(values.get(name)) if name is not None else "")
        for literal, name, _, _ in Formatter().parse(template)
    )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
