"""Databases with a lexical backend, on a server that may be given from outside."""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn
from urllib.parse import urlsplit

import asyncpg
import pytest
from groundline_lexical import LexicalIndex, LexicalIndexError, detect_lexical_index
from groundline_lexical.pg_textsearch import PgTextsearchIndex

from groundline_tests.postgres import server_binaries

URL_VARIABLE: Final = "GROUNDLINE_TEST_POSTGRES_URL"
"""URL of a server, with the right to create databases and extensions, whose backends are tested."""

ROLE: Final = "groundline"
"""Role without superuser rights, which owns the databases on servers of the tests' own."""

SEARCH_SETTINGS: Final = {"plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0"}
"""Settings of connections that search."""

PREPARATION: Final[Mapping[str, Sequence[str]]] = {
    "pg_textsearch": ("CREATE EXTENSION pg_textsearch",),
    "pg_search": ("CREATE EXTENSION pg_search",),
    "vchord_bm25": ("CREATE EXTENSION vchord_bm25", f"GRANT USAGE ON SCHEMA bm25_catalog TO {ROLE}"),
}
"""Statements of a superuser before others migrate, as the README of groundline-lexical has them."""

_OFFERED: Final = "SELECT default_version FROM pg_available_extensions WHERE name = $1"


@dataclass(frozen=True, slots=True)
class Database:
    """A database with a backend's extension."""

    url: str
    admin_url: str
    """URL of the same database, as the role that the server's URL names."""
    index: LexicalIndex


async def lexical_server_settings() -> Mapping[str, str]:
    """Return the settings of a server that loads the libraries of its extensions."""
    process = await asyncio.create_subprocess_exec(
        str(server_binaries() / "pg_config"), "--pkglibdir", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    folder = output.decode().strip()
    files = {name.partition(".")[0] for name in os.listdir(folder)}
    return {"shared_preload_libraries": "'pg_textsearch'"} if "pg_textsearch" in files else {}


async def create_role(url: str) -> None:
    """Create ROLE on a server."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE ROLE {ROLE} LOGIN")
    await connection.close()


@asynccontextmanager
async def database_with(
    backend: str, server: str, *, name: str, owner: str | None
) -> AsyncIterator[Database]:
    """Create a database with the backend's extension; skip if the server has none.

    `owner` is a role without further rights, for which a superuser prepares the database. None takes the role
    of `server`, a URL, which creates the extension itself.
    """
    index = await offered_index(server, backend)
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.execute(f'CREATE DATABASE "{name}"' + (f" OWNER {owner}" if owner else ""))
        try:
            if owner is not None:
                superuser = await asyncpg.connect(_database(server, name))
                for statement in PREPARATION[backend]:
                    await superuser.execute(statement)
                await superuser.close()
            url = _database(server, name, owner)
            connection = await asyncpg.connect(url)
            try:
                await index.create_extension(connection)
            except LexicalIndexError as error:
                _skip(str(error))
            finally:
                await connection.close()
            yield Database(url, _database(server, name), index)
        finally:
            await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await admin.close()


async def offered_index(server: str, backend: str) -> LexicalIndex:
    """Return the backend in the version that the server at a URL offers; skip if it offers no version."""
    connection = await asyncpg.connect(server)
    try:
        version = await connection.fetchval(_OFFERED, backend)
        if backend == PgTextsearchIndex.name and version is not None:
            # The wheel has a version that production refuses, with the same SQL.
            return PgTextsearchIndex.of_version(version, allow_lossy=True)
        return await detect_lexical_index(connection, backend)
    except LexicalIndexError as error:
        _skip(str(error))
    finally:
        await connection.close()


def allow_lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let services of this process run on the wheel's pg_textsearch, which production refuses."""
    lossy = partial(PgTextsearchIndex.of_version, allow_lossy=True)
    monkeypatch.setattr(PgTextsearchIndex, "of_version", lossy)


def _skip(reason: str) -> NoReturn:
    """Skip visibly."""
    reason = f"LEXICAL BACKEND NOT TESTED: {reason}"
    warnings.warn(reason, pytest.PytestWarning, stacklevel=2)
    pytest.skip(reason)


def _database(url: str, name: str, role: str | None = None) -> str:
    parts = urlsplit(url)
    location = parts.netloc.rpartition("@")[2]
    netloc = parts.netloc if role is None else f"{role}@{location}"
    return parts._replace(netloc=netloc, path=f"/{name}").geturl()
