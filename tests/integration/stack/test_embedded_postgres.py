"""The embedded server: set-up, durability, and what a crash does to BM25."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest
from groundline_cli.stack.errors import DirectoryInUseError, PostgresError
from groundline_cli.stack.postgres import EmbeddedPostgres

ROWS = 200


@pytest.fixture
def data_dir(tmp_path: Path, copy_of_initialised: Callable[[Path], Path]) -> Path:
    return copy_of_initialised(tmp_path / "data")


@asynccontextmanager
async def connection(postgres: EmbeddedPostgres) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    opened = await asyncpg.connect(postgres.dsn)
    try:
        yield opened
    finally:
        await opened.close()


async def make_notes(postgres: EmbeddedPostgres) -> None:
    """Create rows with a BM25 and an HNSW index, as the role that the services use."""
    async with connection(postgres) as sql:
        await sql.execute("CREATE TABLE notes (id bigint PRIMARY KEY, body text, embedding halfvec(8))")
        await sql.execute(
            "CREATE INDEX notes_bm25 ON notes USING bm25 (id, body) WITH (key_field = 'id', text_fields = "
            """'{"body": {"tokenizer": {"type": "default", "stemmer": "English"}}}')"""
        )
        await sql.execute("CREATE INDEX notes_hnsw ON notes USING hnsw (embedding halfvec_cosine_ops)")
        await sql.execute(
            "INSERT INTO notes SELECT n, 'harbour note ' || n, "
            "(SELECT array_agg(hashint4(n * 8 + k) / 2147483648.0)::real[]::halfvec "
            "FROM generate_series(1, 8) k) "
            "FROM generate_series(1, $1::int) n",
            ROWS,
        )


async def found_by_bm25(postgres: EmbeddedPostgres) -> int:
    async with connection(postgres) as sql:
        rows = await sql.fetch(
            "SELECT id FROM notes WHERE body @@@ paradedb.match('body', 'harbour') "
            "ORDER BY paradedb.score(id) DESC LIMIT 1000"
        )
        return len(rows)


async def found_by_vector(postgres: EmbeddedPostgres) -> int:
    """Count the rows that the HNSW index finds nearest to their own vector."""
    nearest = "SELECT id FROM notes ORDER BY embedding <=> $1::text::halfvec LIMIT 1"
    async with connection(postgres) as sql:
        await sql.execute("SET enable_seqscan = off; SET enable_sort = off")
        rows = await sql.fetch("SELECT id, embedding::text AS vector FROM notes")
        plan = await sql.fetch(f"EXPLAIN {nearest}", rows[0]["vector"])
        assert any("notes_hnsw" in line for (line,) in plan)
        return sum([await sql.fetchval(nearest, row["vector"]) == row["id"] for row in rows])


async def kill(postgres: EmbeddedPostgres, end_of: Callable[[list[int]], list[int]]) -> None:
    """Kill the postmaster with SIGKILL; its own children follow by themselves."""
    postmaster = psutil.Process(postgres.process.pid)
    family = [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]
    postmaster.kill()
    await postgres.process.wait()
    assert end_of(family) == []
    await postgres.stop()


async def test_a_second_server_on_the_same_data_is_refused(data_dir: Path) -> None:
    async with EmbeddedPostgres(data_dir):
        with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"):
            await EmbeddedPostgres(data_dir).start()


async def test_a_setting_that_postgres_refuses_is_shown_with_its_log(data_dir: Path) -> None:
    with (data_dir / "cluster" / "postgresql.conf").open("a") as configuration:
        configuration.write("shared_buffers = 'plenty'\n")
    with pytest.raises(PostgresError, match=r"(?s)exited with code 1; log: .*shared_buffers"):
        await EmbeddedPostgres(data_dir).start()


async def test_a_failed_start_leaves_the_directory_free(data_dir: Path) -> None:
    control = data_dir / "cluster" / "global" / "pg_control"
    control.rename(control.with_suffix(".away"))
    with pytest.raises(PostgresError, match="not a usable PostgreSQL cluster"):
        await EmbeddedPostgres(data_dir).start()
    control.with_suffix(".away").rename(control)
    async with EmbeddedPostgres(data_dir) as postgres:
        assert await _scalar(postgres, "SELECT 1") == 1


async def test_what_an_interrupted_set_up_has_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data" / "cluster.new").mkdir(parents=True)
    (tmp_path / "data" / "cluster.new" / "PG_VERSION").touch()
    async with EmbeddedPostgres(tmp_path / "data") as postgres:
        assert await _scalar(postgres, "SELECT 1") == 1


async def test_a_wrong_password_is_refused(data_dir: Path) -> None:
    async with EmbeddedPostgres(data_dir) as postgres:
        password = postgres.dsn.split(":")[2].split("@")[0]
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(postgres.dsn.replace(password, "wrong"))


async def test_a_first_start_makes_a_utf8_durable_private_cluster_deaf_to_the_network(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    async with EmbeddedPostgres(data_dir) as postgres:
        assert await _scalar(postgres, "SHOW server_encoding") == "UTF8"
        locale = "SELECT datlocale FROM pg_database WHERE datname = current_database()"
        assert await _scalar(postgres, locale) == "C.UTF-8"
        assert await _scalar(postgres, "SHOW fsync") == "on"
        assert await _scalar(postgres, "SHOW listen_addresses") == ""
        assert await _scalar(postgres, "SHOW random_page_cost") == "1.1"
        assert await _scalar(postgres, "SHOW is_superuser") == "off"
        assert psutil.Process(postgres.process.pid).uids().effective != 0
    for path in (data_dir, data_dir / "passwords.json", data_dir / "postgres.log", data_dir / "cluster"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert not (data_dir / "initdb_password").exists()


async def test_parents_closed_to_others_stay_closed(
    tmp_path: Path, copy_of_initialised: Callable[[Path], Path]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with EmbeddedPostgres(copy_of_initialised(closed / "data")) as postgres:
        assert await _scalar(postgres, "SELECT 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


async def test_a_clean_restart_keeps_rows_and_indexes_and_rebuilds_nothing(data_dir: Path) -> None:
    async with EmbeddedPostgres(data_dir) as postgres:
        await make_notes(postgres)
    async with EmbeddedPostgres(data_dir) as postgres:
        assert postgres.rebuilt_indexes == ()
        assert await found_by_bm25(postgres) == ROWS
        assert await found_by_vector(postgres) == ROWS


async def test_after_kill_9_every_row_is_found_by_bm25_and_by_vector(
    data_dir: Path, end_of: Callable[[list[int]], list[int]]
) -> None:
    """Tried: with the rebuild taken out, BM25 finds 0 of the rows here, HNSW, which writes WAL, all."""
    postgres = EmbeddedPostgres(data_dir)
    await postgres.start()
    await make_notes(postgres)
    assert await found_by_bm25(postgres) == ROWS
    assert await found_by_vector(postgres) == ROWS
    await kill(postgres, end_of)

    async with EmbeddedPostgres(data_dir) as restarted:
        assert restarted.rebuilt_indexes == ("groundline.public.notes_bm25",)
        assert await found_by_bm25(restarted) == ROWS
        assert await found_by_vector(restarted) == ROWS


async def test_a_rebuild_that_was_missed_is_done_by_the_next_start(
    data_dir: Path, end_of: Callable[[list[int]], list[int]]
) -> None:
    """The failed start recovers and stops cleanly, so the cluster itself no longer shows the crash."""
    postgres = EmbeddedPostgres(data_dir)
    await postgres.start()
    await make_notes(postgres)
    await kill(postgres, end_of)
    passwords = (data_dir / "passwords.json").read_text()
    (data_dir / "passwords.json").write_text('{"postgres": "wrong", "groundline": "wrong"}')
    with pytest.raises(PostgresError, match=r"passwords.json does not fit"):
        await EmbeddedPostgres(data_dir).start()
    (data_dir / "passwords.json").write_text(passwords)

    async with EmbeddedPostgres(data_dir) as restarted:
        assert restarted.rebuilt_indexes == ("groundline.public.notes_bm25",)
        assert await found_by_bm25(restarted) == ROWS


async def test_a_crashed_backend_does_not_end_the_server(data_dir: Path) -> None:
    """The workers rebuild the BM25 indexes that it may leave broken."""
    async with EmbeddedPostgres(data_dir) as postgres:
        await make_notes(postgres)
        sql = await asyncpg.connect(postgres.dsn)
        os.kill(await sql.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
        async with asyncio.timeout(60):
            while not sql.is_closed():  # noqa: ASYNC110 (the server closes it)
                await asyncio.sleep(0.05)
            while True:
                try:
                    recovered = await asyncpg.connect(postgres.dsn)
                    break
                except (asyncpg.CannotConnectNowError, OSError):
                    await asyncio.sleep(0.05)
        assert await recovered.fetchval("SELECT count(*) FROM notes") == ROWS
        await recovered.close()
        assert postgres.process.returncode is None


async def test_stopping_removes_the_socket_and_every_process(
    data_dir: Path, end_of: Callable[[list[int]], list[int]]
) -> None:
    postgres = EmbeddedPostgres(data_dir)
    await postgres.start()
    socket_dir = postgres.dsn.split("host=")[1]
    family = [child.pid for child in psutil.Process(postgres.process.pid).children(recursive=True)]
    assert os.listdir(socket_dir)
    await postgres.stop()
    with pytest.raises(FileNotFoundError):
        os.listdir(socket_dir)
    assert end_of(family) == []


async def test_a_killed_runs_socket_directory_is_removed_by_the_next(data_dir: Path, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (data_dir / "socket_dir").write_text(str(left))
    async with EmbeddedPostgres(data_dir):
        assert not left.exists()


async def _scalar(postgres: EmbeddedPostgres, query: str) -> object:
    async with connection(postgres) as sql:
        value: object = await sql.fetchval(query)
        return value
