"""Backups and restores by the commands of deploy/README.md, with data, and with searches afterwards."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from groundline_cli.backups.restoring import restore
from groundline_cli.backups.writing import back_up
from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import DatabaseSettings, migrate, register_vectors
from groundline_lexical import LexicalIndex, detect_lexical_index
from groundline_lexical.detection import BACKENDS
from groundline_tests.lexical import (
    PREPARATION,
    ROLE,
    allow_lossy,
    create_role,
    lexical_server_settings,
    offered_index,
)
from groundline_tests.postgres import PostgresServer, server_binaries
from pydantic import SecretStr
from service_requirements import ROOT

# A backend that is skipped is to be seen, not to fail.
pytestmark = pytest.mark.filterwarnings("default:LEXICAL BACKEND NOT TESTED:pytest.PytestWarning")

TEXTS = (
    "The valve opens at 41 degrees",
    "The pump was painted green",
    "Nobody may enter the harbour after sunset",
)
LATER = "The siren sounds every Monday"

# The commands of a pod run here, as the superuser that they are there.
KUBECTL = """#!/bin/sh
while [ "$#" -gt 0 ]; do
  case "$1" in
    -n | -c) shift 2 ;;
    --) shift; exec "$@" ;;
    get) echo groundline-database-2; exit ;;
    scale | apply) exit ;;
    exec | --stdin | groundline-database-2) shift ;;
    *) echo "kubectl: nobody expected $1" >&2; exit 1 ;;
  esac
done
"""

# The wheel's psql does not run at all; this does what of it the README uses.
PSQL = f"""#!{sys.executable}
import argparse, asyncio, asyncpg
parser = argparse.ArgumentParser()
parser.add_argument("--dbname", default="postgres")
parser.add_argument("--set")
parser.add_argument("--command", action="append")
options = parser.parse_args()
async def main():
    connection = await asyncpg.connect(database=options.dbname)
    for statement in options.command:
        await connection.execute(statement)
asyncio.run(main())
"""


def commands(name: str) -> str:
    """Return the commands of one block of the README."""
    text = (ROOT / "deploy/README.md").read_text()
    found = re.search(rf"<!-- {name} -->\n```console\n(.*?)```", text, re.DOTALL)
    assert found is not None, name
    return re.sub(r"^\$ ", "", found[1], flags=re.MULTILINE)


async def shell(script: str, folder: Path, server: PostgresServer | None = None) -> None:
    """Run commands in the folder, which stands for the README's folders, and expect them to succeed."""
    for name in ("backup", "archive"):
        script = script.replace(f"/{name}", str(folder / name))
    for name, text in (("kubectl", KUBECTL), ("psql", PSQL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    socket = re.search(r"host=([^&]+)", server.dsn) if server else None
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=folder,
        env={
            "PATH": f"{folder}:{server_binaries()}:{os.defpath}",
            "PGUSER": "postgres",
            "PGHOST": socket[1] if socket else "",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    shown, _ = await process.communicate()
    assert process.returncode == 0, shown.decode()


class Site:
    """The suite's database on a server, as the services use it: by a role without superuser rights."""

    def __init__(self, server: PostgresServer, index: LexicalIndex, corpus_on: Any) -> None:
        self.server, self.index = server, index
        self._corpus_on = corpus_on

    @property
    def url(self) -> str:
        return self.server.dsn_of("groundline").replace("postgres@", f"{ROLE}@")

    async def create(self) -> None:
        """Create a migrated database, as an operator gets it from overlays/production/database and
        migrations."""
        superuser = await asyncpg.connect(self.server.dsn)
        for name in ("groundline", "groundline_before", "groundline_restored"):
            await superuser.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await superuser.execute(f"CREATE DATABASE groundline OWNER {ROLE}")
        await superuser.close()
        superuser = await asyncpg.connect(self.server.dsn_of("groundline"))
        for statement in ("CREATE EXTENSION vector", *PREPARATION[self.index.name]):
            await superuser.execute(statement)
        await superuser.close()
        await self.migrate()

    async def migrate(self) -> None:
        settings = DatabaseSettings(database_url=SecretStr(self.url))
        await migrate(settings, "ingestor", prepare=self.index.create_extension)
        await migrate(settings, "coordinator")

    async def restore(self, folder: Path) -> None:
        await shell(self.with_own_engine(commands("restore")), folder, self.server)

    def with_own_engine(self, script: str) -> str:
        """Return the README's commands with this engine's extension, and its rights."""
        one = "--command='CREATE EXTENSION pg_textsearch'"
        assert one in script
        return script.replace(one, " ".join(f"--command='{sql}'" for sql in PREPARATION[self.index.name]))

    async def store(self, collection: str, texts: Sequence[str]) -> None:
        connection = await asyncpg.connect(self.url)
        await register_vectors(connection)
        await self._corpus_on(connection, self.index).collection(collection, texts)
        await connection.close()

    async def drop(self, collection: str) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute("DELETE FROM collections WHERE collection_id = $1", collection)
        await connection.close()

    async def found(self, collection: str, query: str) -> list[str]:
        """Return texts by the keyword index."""
        return await self._search(
            collection, lambda table: self.index.search_sql(table, "english", limit=10), query
        )

    async def nearest(self, collection: str, text: str) -> str:
        """Return the text whose vector is the nearest to this text's own."""
        connection = await asyncpg.connect(self.url)
        await register_vectors(connection)
        corpus = self._corpus_on(connection, self.index)
        [vector] = await corpus.embedder.embed_documents([text])
        table = f"chunks_p{await corpus.partition(collection)}"
        await connection.execute("SET enable_seqscan = off; SET enable_sort = off")
        found: str = await connection.fetchval(
            f"""
            SELECT original_text FROM {table}
            ORDER BY embedding::halfvec({corpus.embedder.dimensions}) <=> $1 LIMIT 1
            """,
            vector,
        )
        await connection.close()
        return found

    async def _search(self, collection: str, sql: Any, query: str) -> list[str]:
        connection = await asyncpg.connect(self.url)
        partition = await connection.fetchval(
            "SELECT partition_id FROM collections WHERE collection_id = $1", collection
        )
        table = f"chunks_p{partition}"
        for name, value in self.index.search_settings(10).items():
            await connection.execute("SELECT set_config($1, $2, false)", name, value)
        rows = await connection.fetch(sql(table), self.index.prepare_query(query, "english"))
        texts = [
            await connection.fetchval(
                f"SELECT original_text FROM {table} WHERE chunk_id = $1", row["chunk_id"]
            )
            for row in rows
        ]
        await connection.close()
        return texts

    async def collections(self) -> list[str]:
        connection = await asyncpg.connect(self.url)
        rows = await connection.fetch("SELECT collection_id FROM collections ORDER BY 1")
        await connection.close()
        return [row["collection_id"] for row in rows]

    async def is_as_dumped(self) -> None:
        """Check that both indexes find the stored texts and no later ones, and that more can be stored."""
        assert await self.collections() == ["manuals"]
        assert await self.found("manuals", "painted pumps") == [TEXTS[1]]
        assert [await self.nearest("manuals", text) for text in TEXTS] == list(TEXTS)
        await self.store("afterwards", [LATER])
        assert await self.found("afterwards", "siren") == [LATER]
        await self.migrate()


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    """One that keeps its write-ahead log."""
    folder = tmp_path_factory.mktemp("site")
    archive = folder / "archive"
    settings = {
        **await lexical_server_settings(),
        "archive_mode": "on",
        "archive_command": f"'test ! -f {archive}/%f && cp %p {archive}/%f'",
    }
    async with PostgresServer(folder, settings) as server:
        owner = (folder / "cluster").stat()
        archive.mkdir()
        os.chown(archive, owner.st_uid, owner.st_gid)
        await create_role(server.dsn)
        yield server


@pytest.fixture(params=BACKENDS)
async def site(request: pytest.FixtureRequest, server: PostgresServer, corpus_on: Any) -> Site:
    site = Site(server, await offered_index(server.dsn, request.param), corpus_on)
    await site.create()
    await site.store("manuals", TEXTS)
    return site


@pytest.mark.parametrize("is_new", [False, True], ids=["the same database", "a new database"])
async def test_a_dump_is_restored_into(is_new: bool, site: Site, tmp_path: Path) -> None:
    await shell(commands("dump"), tmp_path, site.server)
    await site.store("later", [LATER])
    if is_new:
        await site.create()
    await site.restore(tmp_path)
    await site.is_as_dumped()


async def test_a_restore_that_fails_leaves_everything_as_it_was(site: Site, tmp_path: Path) -> None:
    await shell(commands("dump"), tmp_path, site.server)
    await site.store("later", [LATER])
    without_vectors = commands("restore").replace("--command='CREATE EXTENSION vector'", "")
    with pytest.raises(AssertionError, match="pg_restore: error"):
        await shell(site.with_own_engine(without_vectors), tmp_path, site.server)
    assert await site.collections() == ["later", "manuals"]
    assert await site.found("manuals", "painted pumps") == [TEXTS[1]]


async def test_a_copy_of_the_files_and_the_log_bring_a_moment_back(
    site: Site, corpus_on: Any, server: PostgresServer, tmp_path: Path
) -> None:
    home = Path(server._directory)
    shutil.rmtree(home / "backup", ignore_errors=True)
    (home / "backup").mkdir()
    await shell(commands("copy"), home, server)
    await site.store("before", [LATER])
    superuser = await asyncpg.connect(server.dsn)
    moment = await superuser.fetchval("SELECT clock_timestamp()::text")
    await superuser.close()
    # The accident, and the log up to it.
    superuser = await asyncpg.connect(server.dsn_of("groundline"))
    await superuser.execute(f"DROP OWNED BY {ROLE}")
    await archived(superuser, await superuser.fetchval("SELECT pg_walfile_name(pg_switch_wal())"))
    await superuser.close()

    script, count = re.subn(
        r"recovery_target_time = '.*'", f"recovery_target_time = '{moment}'", commands("recover")
    )
    assert count == 1
    await shell(script, home)
    recovered = PostgresServer(tmp_path / "recovered", {})
    (tmp_path / "recovered").mkdir()
    await asyncio.to_thread(shutil.move, home / "backup/base", tmp_path / "recovered/cluster")
    owner = (home / "cluster").stat()
    for path in (tmp_path / "recovered/cluster", *(tmp_path / "recovered/cluster").rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    async with recovered:
        await promoted(recovered)
        there = Site(recovered, site.index, corpus_on)
        assert await there.collections() == ["before", "manuals"]
        if not site.index.capabilities.survives_unclean_stop:
            await rebuild(recovered)
        assert await there.found("manuals", "painted pumps") == [TEXTS[1]]
        assert await there.found("before", "siren") == [LATER]
        assert await there.nearest("manuals", TEXTS[0]) == TEXTS[0]


async def test_the_embedded_database_is_taken_to_productions_engine(
    postgres: EmbeddedPostgres,
    server: PostgresServer,
    corpus_on: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedded = await postgres.create_database("to_production")
    for service in ("ingestor", "coordinator", "gateway"):
        await migrate(DatabaseSettings(database_url=SecretStr(embedded)), service)
    connection = await asyncpg.connect(embedded)
    await register_vectors(connection)
    corpus = corpus_on(connection, await detect_lexical_index(connection))
    await corpus.collection("manuals", TEXTS)
    await corpus.collection("small", [LATER], is_shared=True)
    await connection.close()

    there = Site(server, await offered_index(server.dsn, "pg_textsearch"), corpus_on)
    await there.create()
    superuser = await asyncpg.connect(server.dsn)
    await superuser.execute("DROP DATABASE groundline WITH (FORCE)")
    await superuser.close()
    prepare, _, moves = commands("move").partition("groundline backup")
    assert "groundline restore" in moves
    await shell(prepare, tmp_path, server)
    # In this process, for the commands refuse the wheel's version of the engine.
    allow_lossy(monkeypatch)
    manifest = await back_up(embedded, tmp_path / "backup", quiet)
    restored = await restore(there.url, tmp_path / "backup", manifest, [], quiet)
    await postgres.drop_database("to_production")

    assert (restored.engine, restored.missing_indexes) == ("pg_textsearch", 0)
    assert await there.found("small", "siren") == [LATER]
    await there.drop("small")
    await there.is_as_dumped()


async def test_a_database_is_restored_beside_itself_with_the_rights_of_others(
    server: PostgresServer, corpus_on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(server, await offered_index(server.dsn, "pg_textsearch"), corpus_on)
    allow_lossy(monkeypatch)
    await site.create()
    await migrate(DatabaseSettings(database_url=SecretStr(site.url)), "gateway")
    await site.store("manuals", TEXTS)
    superuser = await asyncpg.connect(server.dsn)
    await superuser.execute("DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN")
    owner = await asyncpg.connect(site.url)
    await owner.execute("GRANT SELECT ON api_keys, schema_migrations TO keeper")
    await owner.close()
    manifest = await back_up(site.url, tmp_path / "backup", quiet)
    assert manifest.roles == ["keeper"]
    await site.store("later", [LATER])
    await superuser.execute(f"CREATE DATABASE groundline_restored OWNER {ROLE}")
    beside = await asyncpg.connect(server.dsn_of("groundline_restored"))
    for statement in ("CREATE EXTENSION vector", *PREPARATION[site.index.name]):
        await beside.execute(statement)
    await beside.close()
    url = site.url.replace("/groundline?", "/groundline_restored?")

    await superuser.execute("ALTER ROLE keeper RENAME TO another")
    with pytest.raises(CommandFailedError, match="roles that this server does not have: keeper"):
        await restore(url, tmp_path / "backup", manifest, [], quiet)
    await superuser.execute("ALTER ROLE another RENAME TO keeper")
    await restore(url, tmp_path / "backup", manifest, [], quiet)

    await superuser.execute("ALTER DATABASE groundline RENAME TO groundline_before")
    await superuser.execute("ALTER DATABASE groundline_restored RENAME TO groundline")
    await site.is_as_dumped()
    rights = await asyncpg.connect(server.dsn_of("groundline"))
    may = "SELECT has_table_privilege('keeper', $1, 'SELECT')"
    assert await rights.fetchval(may, "api_keys")
    assert not await rights.fetchval(may, "documents")
    await rights.close()
    for name in ("groundline", "groundline_before"):
        await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await superuser.execute("DROP ROLE keeper")
    await superuser.close()


def quiet(_: str) -> None:
    pass


async def archived(connection: Any, file: str) -> None:
    """Wait until the log up to this file of it is in the archive."""
    async with asyncio.timeout(60):
        waiting = True
        while waiting:
            waiting = await connection.fetchval(
                "SELECT coalesce(last_archived_wal, '') < $1 FROM pg_stat_archiver, pg_sleep(0.1)", file
            )


async def promoted(server: PostgresServer) -> None:
    connection = await asyncpg.connect(server.dsn)
    async with asyncio.timeout(60):
        recovering = True
        while recovering:
            recovering = await connection.fetchval("SELECT pg_is_in_recovery() FROM pg_sleep(0.1)")
    await connection.close()


async def rebuild(server: PostgresServer) -> None:
    """Rebuild as the README asks for when the log holds no index."""
    connection = await asyncpg.connect(server.dsn_of("groundline"))
    await connection.execute("REINDEX SCHEMA public")
    await connection.close()
