"""Databases to measure on: of an embedded server, or on one at hand, whatever keyword engine it has."""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import click
from groundline_cli.stack.postgres import EmbeddedPostgres

from groundline_benchmarks.measuring.running import MeasurementError

type Databases = Callable[[], AbstractAsyncContextManager[str]]
"""Makes a new database, gives its URL, and drops it."""


def database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option --database-url."""
    return click.option(
        "--database-url",
        metavar="URL",
        envvar="GROUNDLINE_BENCH_DATABASE_URL",
        show_envvar=True,
        help="A PostgreSQL server, for a role that may create databases and extensions; each database made "
        "there is dropped. Default: an embedded one.",
    )(command)


@asynccontextmanager
async def database_server(url: str | None, directory: Path) -> AsyncIterator[Databases]:
    """Provide the server of a URL, or without one an embedded server with its data in `directory`."""
    if url is not None:
        yield databases_on(url)
        return
    async with EmbeddedPostgres(directory) as server:
        yield databases_of(server)


def databases_of(server: EmbeddedPostgres) -> Databases:
    """Create databases on a running embedded server."""

    @asynccontextmanager
    async def database() -> AsyncIterator[str]:
        name = _new_name()
        try:
            yield await server.create_database(name)
        finally:
            await server.drop_database(name)

    return database


def databases_on(url: str) -> Databases:
    """Create databases on a server, for a role that may do so."""

    @asynccontextmanager
    async def database() -> AsyncIterator[str]:
        name = _new_name()
        await _execute(url, f"CREATE DATABASE {name}")
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            await _execute(url, f"DROP DATABASE {name} WITH (FORCE)")

    return database


@asynccontextmanager
async def suite_database(url: str | None) -> AsyncIterator[Mapping[str, str]]:
    """Provide the environment of a suite whose database is on the server of a URL; empty without one."""
    if url is None:
        yield {}
        return
    async with databases_on(url)() as database_url:
        yield {"GROUNDLINE_DATABASE_URL": database_url}


async def _execute(url: str, statement: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise MeasurementError(
            f"the server of --database-url does not do it ({type(error).__name__})"
        ) from error


def _new_name() -> str:
    return f"groundline_bench_{uuid.uuid4().hex[:12]}"
