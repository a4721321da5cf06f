"""Backups of a database, and their restores into empty ones, on the embedded engine."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from groundline_cli.backups import restoring
from groundline_cli.backups.manifest import Manifest
from groundline_cli.backups.programs import run, without_password
from groundline_cli.backups.restoring import Restored, restore
from groundline_cli.backups.writing import back_up, settings_of, write_erasures
from groundline_cli.errors import CommandFailedError
from groundline_cli.stack.postgres import EmbeddedPostgres
from groundline_database import Connection, migrations_of, open_pool, register_vectors
from groundline_database.migrations import apply
from groundline_ingestor.adapters.postgres.collections import delete_collection
from groundline_ingestor.adapters.postgres.documents.deletion import delete_documents
from groundline_lexical import detect_lexical_index
from groundline_tests.commands.forked import run_forked
from groundline_tests.retriever.corpus import Corpus

TEXTS = ("The valve opens at 41 degrees", "The pump was painted green", "Nobody may enter after sunset")
OLDER = {"ingestor": 7, "coordinator": 4, "gateway": 1}
"""Versions of an earlier release, which had no erasures."""


def quiet(_: str) -> None:
    pass


class Site:
    """A suite's database on the embedded server."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["asyncpg.Connection[Any]"]:
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def store(self, collection: str, texts: Sequence[str] = TEXTS, *, is_shared: bool = False) -> None:
        async with self.connected() as connection:
            await register_vectors(connection)
            corpus = Corpus(connection, await detect_lexical_index(connection))
            await corpus.collection(collection, texts, is_shared=is_shared)

    async def value(self, sql: str, *values: Any) -> Any:
        async with self.connected() as connection:
            return await connection.fetchval(sql, *values)

    async def texts(self, collection: str) -> list[str]:
        """Return the chunks' texts of a collection."""
        async with self.connected() as connection:
            rows = await connection.fetch(
                "SELECT original_text FROM chunks WHERE collection_id = $1 ORDER BY chunk_id", collection
            )
        return [row["original_text"] for row in rows]

    async def found(self, collection: str, query: str) -> list[str]:
        """Return texts by the keyword index."""
        async with self.connected() as connection:
            index = await detect_lexical_index(connection)
            row = await connection.fetchrow(
                "SELECT p.partition_id, p.collection_id IS NULL AS is_shared "
                "FROM collections JOIN chunk_partitions p USING (partition_id) "
                "WHERE collections.collection_id = $1",
                collection,
            )
            assert row is not None
            sql = index.search_sql(
                f"chunks_p{row['partition_id']}",
                "english",
                limit=10,
                columns="original_text",
                collections="$2" if row["is_shared"] else "",
            )
            values = [[collection]] if row["is_shared"] else []
            rows = await connection.fetch(sql, index.prepare_query(query, "english"), *values)
        return [row["original_text"] for row in rows]

    async def erase(self, collection: str, text: str | None = None) -> None:
        """Delete the document of a text for good, or the whole collection."""
        async with self.changed() as connection:
            if text is None:
                await delete_collection(connection, collection)
            else:
                condition = "content_hash = sha256(convert_to($2, 'UTF8'))"
                await delete_documents(connection, collection, condition, [text])

    @asynccontextmanager
    async def changed(self) -> AsyncIterator[Connection]:
        """Provide a transaction as a service has it."""
        async with (
            open_pool(settings_of(self.url)) as pool,
            pool.acquire() as connection,
            connection.transaction(),
        ):
            yield connection

    async def hold(self, collection: str, text: str) -> None:
        async with self.connected() as connection:
            await connection.execute(
                "INSERT INTO legal_holds (collection_id, document_id, reason) SELECT $1, document_id, 'Case' "
                "FROM documents WHERE collection_id = $1 AND content_hash = sha256(convert_to($2, 'UTF8'))",
                collection,
                text,
            )


@pytest.fixture
async def site(postgres: EmbeddedPostgres, template_database: str) -> AsyncIterator[Site]:
    """A migrated database."""
    yield Site(await postgres.create_database("backed_up", template=template_database))
    await postgres.drop_database("backed_up")


@pytest.fixture
async def empty(postgres: EmbeddedPostgres) -> AsyncIterator[Site]:
    yield Site(await postgres.create_database("restored"))
    await postgres.drop_database("restored")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def until_begun(folder: Path) -> None:
    """Wait until a backup has begun to write."""
    async with asyncio.timeout(60):
        begun = False
        while not begun:
            await asyncio.sleep(0.05)
            begun = any(names_in(folder))


async def restored(empty: Site, backup: Path, erasures: Sequence[Mapping[str, Any]] = ()) -> Restored:
    return await restore(empty.url, backup, Manifest.of(backup), erasures, quiet)


async def test_a_database_without_a_suite_is_not_backed_up(empty: Site, tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError, match="holds no suite"):
        await back_up(empty.url, tmp_path / "backup", quiet)
    assert names_in(tmp_path) == []


async def test_a_backup_never_replaces_what_is_there(site: Site, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with pytest.raises(CommandFailedError, match="exists"):
        await back_up(site.url, tmp_path / "backup", quiet)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_backup_cut_off_is_no_backup(site: Site, tmp_path: Path, number: signal.Signals) -> None:
    await site.store("manuals")
    async with site.connected() as connection, connection.transaction():
        # pg_dump waits for this lock; what it had written before is there.
        await connection.execute("LOCK TABLE threads")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "groundline_cli", "backup", str(tmp_path / "backup"),
            env={**os.environ, "GROUNDLINE_DATABASE_URL": site.url},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await until_begun(tmp_path)
        process.send_signal(number)
        _, said = await process.communicate()
    assert process.returncode == (1 if number == signal.SIGINT else -number), said.decode()
    assert not (tmp_path / "backup").exists()
    remains = names_in(tmp_path)
    assert len(remains) == (0 if number == signal.SIGINT else 1)
    for name in remains:
        with pytest.raises(CommandFailedError, match="not a backup"):
            Manifest.of(tmp_path / name)


async def test_a_backup_of_which_a_byte_was_changed_is_not_whole(site: Site, tmp_path: Path) -> None:
    await back_up(site.url, tmp_path / "backup", quiet)
    manifest = Manifest.of(tmp_path / "backup")
    manifest.require_whole(tmp_path / "backup")
    changed = tmp_path / "backup/database/toc.dat"
    changed.write_bytes(changed.read_bytes()[:-1] + b"!")
    with pytest.raises(CommandFailedError, match=r"damaged.*database/toc.dat"):
        manifest.require_whole(tmp_path / "backup")


async def test_a_database_that_is_not_empty_stays_as_it_is(site: Site, tmp_path: Path) -> None:
    await site.store("manuals")
    await back_up(site.url, tmp_path / "backup", quiet)
    with pytest.raises(CommandFailedError, match=r"not empty.*1 collections \(manuals\) with 3 documents"):
        await restored(site, tmp_path / "backup")
    assert await site.texts("manuals") == list(TEXTS)


async def test_a_backup_of_a_newer_release_is_refused_before_anything_is_written(
    site: Site, empty: Site, tmp_path: Path
) -> None:
    async with site.connected() as connection:
        await connection.execute("INSERT INTO schema_migrations VALUES ('ingestor', 999, 'later', 'x')")
    await back_up(site.url, tmp_path / "backup", quiet)
    with pytest.raises(CommandFailedError, match="newer than this release knows"):
        await restored(empty, tmp_path / "backup")
    assert await empty.value("SELECT to_regclass('collections')") is None


async def test_everything_comes_back_with_its_indexes(site: Site, empty: Site, tmp_path: Path) -> None:
    await site.store("manuals")
    await site.store("small", ["The siren sounds every Monday"], is_shared=True)
    manifest = await back_up(site.url, tmp_path / "backup", quiet)
    await site.store("later")
    assert {name: each["chunks"] for name, each in manifest.collections.items()} == {"manuals": 3, "small": 1}

    outcome = await restored(empty, tmp_path / "backup")

    assert (outcome.engine, outcome.missing_indexes) == ("pg_search", 0)
    assert await empty.found("manuals", "painted pumps") == [TEXTS[1]]
    assert await empty.found("small", "sirens") == ["The siren sounds every Monday"]
    assert await empty.value("SELECT array_agg(collection_id) FROM collections") == ["manuals", "small"]
    # New rows get ids of their own.
    await empty.store("afterwards", [TEXTS[0]])
    assert await empty.found("afterwards", "valves") == [TEXTS[0]]


async def test_a_restore_that_was_interrupted_goes_on_and_no_service_starts_before(
    site: Site, empty: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.store("manuals")
    await back_up(site.url, tmp_path / "backup", quiet)

    async def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "migrate_restored", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await restored(empty, tmp_path / "backup")
    assert await empty.texts("manuals") == list(TEXTS)
    assert await empty.value("SELECT count(*) FROM schema_migrations") == 0

    await restored(empty, tmp_path / "backup")
    assert await empty.found("manuals", "painted pumps") == [TEXTS[1]]
    assert await empty.value("SELECT count(*) FROM schema_migrations") > 0


async def test_what_another_backup_left_is_not_taken(site: Site, empty: Site, tmp_path: Path) -> None:
    await back_up(site.url, tmp_path / "before", quiet)
    manifest = Manifest.of(tmp_path / "before")
    async with open_pool(settings_of(empty.url)) as pool:
        await restoring.restore_rows(pool, empty.url, tmp_path / "before", manifest, quiet)
    await site.store("manuals")
    await back_up(site.url, tmp_path / "backup", quiet)
    with pytest.raises(CommandFailedError, match="not this backup"):
        await restored(empty, tmp_path / "backup")


async def test_a_backup_of_an_earlier_release_is_migrated(
    postgres: EmbeddedPostgres, empty: Site, tmp_path: Path
) -> None:
    earlier = Site(await postgres.create_database("earlier"))
    async with earlier.changed() as connection:
        for service, version in OLDER.items():
            await apply(connection, service, migrations_of(service)[:version])
    await earlier.store("manuals")
    await back_up(earlier.url, tmp_path / "backup", quiet)
    await postgres.drop_database("earlier")

    await restored(empty, tmp_path / "backup")
    newest = "SELECT max(version) FROM schema_migrations WHERE service = $1"
    for service in OLDER:
        assert await empty.value(newest, service) == len(migrations_of(service))
    assert await empty.found("manuals", "painted pumps") == [TEXTS[1]]


async def test_what_was_erased_afterwards_is_erased_again(site: Site, empty: Site, tmp_path: Path) -> None:
    await site.store("manuals", [*TEXTS, "Gone before the backup"])
    await site.store("board")
    await site.erase("manuals", "Gone before the backup")
    await back_up(site.url, tmp_path / "backup", quiet)
    await site.erase("manuals", TEXTS[1])
    await site.erase("board")
    assert await write_erasures(site.url, tmp_path / "erasures.json") == 3

    erasures = json.loads((tmp_path / "erasures.json").read_text())
    outcome = await restored(empty, tmp_path / "backup", erasures)

    assert (outcome.erased, outcome.held) == (4, [])
    assert await empty.texts("manuals") == [TEXTS[0], TEXTS[2]]
    assert await empty.found("manuals", "painted pumps") == []
    assert await empty.value("SELECT count(*) FROM collections WHERE collection_id = 'board'") == 0
    known = "SELECT array_agg(erasure_id::text) FROM erasures"
    assert {each["erasure_id"] for each in erasures} <= set(await empty.value(known))


async def test_the_same_text_in_another_document_is_not_erased_with_it(
    site: Site, empty: Site, tmp_path: Path
) -> None:
    await site.store("manuals", [TEXTS[0], TEXTS[0]])
    await back_up(site.url, tmp_path / "backup", quiet)
    async with site.changed() as connection:
        await delete_documents(connection, "manuals", "uri = $2", ["notes/1.md"])
    await write_erasures(site.url, tmp_path / "erasures.json")

    erasures = json.loads((tmp_path / "erasures.json").read_text())
    assert (await restored(empty, tmp_path / "backup", erasures)).erased == 1
    assert await empty.texts("manuals") == [TEXTS[0]]


async def test_an_erasure_of_an_earlier_release_is_known_by_its_hashes(
    site: Site, empty: Site, tmp_path: Path
) -> None:
    await site.store("manuals")
    await back_up(site.url, tmp_path / "backup", quiet)
    await site.erase("manuals", TEXTS[1])
    async with site.connected() as connection:
        await connection.execute("UPDATE erasures SET document_ids = NULL")
    await write_erasures(site.url, tmp_path / "erasures.json")

    erasures = json.loads((tmp_path / "erasures.json").read_text())
    assert (await restored(empty, tmp_path / "backup", erasures)).erased == 1
    assert await empty.texts("manuals") == [TEXTS[0], TEXTS[2]]


async def test_what_a_backup_holds_by_law_stays_named(site: Site, empty: Site, tmp_path: Path) -> None:
    await site.store("manuals")
    await site.hold("manuals", TEXTS[1])
    await back_up(site.url, tmp_path / "backup", quiet)
    held = await site.value("SELECT document_id::text FROM legal_holds")
    async with site.connected() as connection:
        await connection.execute("DELETE FROM legal_holds")
    await site.erase("manuals", TEXTS[1])
    await write_erasures(site.url, tmp_path / "erasures.json")

    erasures = json.loads((tmp_path / "erasures.json").read_text())
    outcome = await restored(empty, tmp_path / "backup", erasures)
    assert (outcome.erased, outcome.held) == (0, [("manuals", held)])
    assert await empty.texts("manuals") == list(TEXTS)


async def test_a_password_is_no_argument_of_a_program() -> None:
    shown, secret = without_password("postgresql://ann:p%40ss@db:5432/groundline?sslmode=require")
    assert shown == "postgresql://ann@db:5432/groundline?sslmode=require"
    assert secret == {"PGPASSWORD": "p@ss"}
    assert without_password("postgresql://ann@/x?host=/run/pg&password=secret") == (
        "postgresql://ann@/x?host=/run/pg",
        {"PGPASSWORD": "secret"},
    )


async def test_a_program_that_fails_says_why_without_rows(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError, match=r"pg_restore failed: .*toc\.dat"):
        await run("pg_restore", "--list", str(tmp_path))


async def test_a_role_without_rights_is_told_whose_they_are(site: Site, tmp_path: Path) -> None:
    async with site.connected() as connection:
        await connection.execute("REVOKE SELECT ON threads FROM CURRENT_USER")
    refused = await run_forked(("backup", str(tmp_path / "backup")), {"GROUNDLINE_DATABASE_URL": site.url})
    assert refused.code == 1
    assert "error: the role lacks rights" in refused.err
    assert names_in(tmp_path) == []
