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
from groundline_contracts import default_of

from groundline_collector.adapters.addresses import AddressNotAllowedError, checked_address
from groundline_collector.adapters.sources.common import (
    CONNECT_SECONDS,
    INTERFACE_VERSION,
    Run,
    SourceKind,
    not_allowed,
    refused,
    unreachable,
)
from groundline_collector.changes import Change, Found, LoadedDocument, present, reached

_STATEMENT_SECONDS: Final[int] = default_of(source_pb2.PostgresSource, "statement_timeout_seconds")
PREFETCHED_ROWS: Final = 200
_PORT: Final = 5432


async def changes(run: Run) -> AsyncGenerator[Change, None]:
    """Yield the rows, those below the cursor by their ids alone; a row's version is a hash of its values.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED).
    """
    url = run.secret(run.source.postgres.url_secret) or ""
    await _require_allowed(url, private_addresses=run.private_addresses)
    seconds = run.source.postgres.statement_timeout_seconds or _STATEMENT_SECONDS
    try:
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=seconds + CONNECT_SECONDS,
            server_settings={
                "application_name": "groundline-collector",
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
            async for change in _rows(connection, run):
                yield change
    except (asyncpg.PostgresConnectionError, OSError, TimeoutError, asyncpg.QueryCanceledError):
        raise unreachable("the database") from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The server's text may quote values.
        raise refused(f"the query fails ({type(error).__name__})") from None
    finally:
        connection.terminate()


async def _require_allowed(url: str, *, private_addresses: bool) -> None:
    """Raise FailedPreconditionError for an address that is not allowed.

    The name is looked up again by the connection, but it is the operator's: it is in the secret.
    """
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
        raise not_allowed(error) from None
    except OSError:
        raise unreachable("the database") from None


async def _rows(connection: "asyncpg.Connection[Any]", run: Run) -> AsyncGenerator[Change, None]:
    asked, prefix, cursor = run.source.postgres, run.uri_prefix, run.start.cursor
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
        if run.takes(row["id"]):
            digest = hashlib.sha256(row["record"].encode()).hexdigest()
            uri = prefix + row["id"]
            load = partial(_document, asked, uri, row["record"])
            yield Found(uri, digest, load, held_bytes=len(row["record"]))
    if values:
        async for row in connection.cursor(f"SELECT {path} AS id FROM {query}", prefetch=PREFETCHED_ROWS):
            if row["id"] is not None and run.takes(row["id"]):
                yield present(prefix + row["id"])
    yield reached(cursor, is_complete=True)


def _document(asked: source_pb2.PostgresSource, uri: str, record: str) -> LoadedDocument:
    values = json.loads(record)
    is_text = bool(asked.text_template)
    content = _filled(asked.text_template, values) if is_text else record
    return LoadedDocument(
        uri,
        (content.encode(),),
        title=_shown(values.get(asked.title_column))[:500],
        source_type=passage_pb2.SOURCE_TYPE_FILE if is_text else passage_pb2.SOURCE_TYPE_OBJECT,
        metadata={name: values[name] for name in asked.metadata_columns if values.get(name) is not None},
        is_text=True,
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


KIND: Final = SourceKind(interface_version=INTERFACE_VERSION, changes=changes)
