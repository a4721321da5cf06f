"""A PostgreSQL server of a test's own, which it may configure, crash and copy."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

import asyncpg
import psutil
from groundline_cli.stack.identity import Identity, unprivileged_identity
from groundline_cli.stack.postgres import binaries
from groundline_cli.stack.process import ChildProcess, Command

BINARIES_VARIABLE: Final = "GROUNDLINE_TEST_POSTGRES_BIN"
"""Variable that names the folder of another PostgreSQL's programs, which may have other extensions than the
wheel's."""

_SUPERUSER: Final = "postgres"
_ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C"}
_READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
_STILL_IN_USE: Final = "pre-existing shared memory block"

_CONFIGURATION: Final[Mapping[str, str]] = {
    "listen_addresses": "''",
    "max_connections": "40",
    "random_page_cost": "1.1",
    "jit": "off",
    # Only processes are killed here: the operating system keeps what they wrote.
    "fsync": "off",
    "restart_after_crash": "off",
}


def server_binaries() -> Path:
    """Return the folder of the programs that servers are started from."""
    named = os.environ.get(BINARIES_VARIABLE)
    return Path(named) if named else binaries()


def wait_for_no_disk(directory: Path, pid: int) -> None:
    """Have the embedded server below `directory` leave writing to the operating system, which outlasts it."""
    with (directory / "cluster/postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write("fsync = off\n")
    os.kill(pid, signal.SIGHUP)


class PostgresServer:
    """A server below `directory`, reachable through a unix socket, as superuser and without a password.

    `settings` go into its configuration as they are written there.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._cluster = directory / "cluster"
        self._settings = settings
        self._identity: Identity | None = None
        self._socket_directory: Path | None = None
        self._process: ChildProcess | None = None

    @property
    def dsn(self) -> str:
        """URL of the database `postgres`."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """Return the URL of a database, as superuser."""
        location = urlencode({"host": str(self._socket_directory)}, safe="/")
        return f"postgresql://{_SUPERUSER}@/{database}?{location}"

    async def start(self) -> None:
        """Start, after an unclean stop too; return once connections are accepted."""
        self._identity = unprivileged_identity(self._cluster)
        if not self._cluster.exists():
            self._make_cluster_directory()
            await self._run(
                "initdb",
                f"--pgdata={self._cluster}",
                f"--username={_SUPERUSER}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            )
            self._configure()
        await self._start()

    async def stop(self) -> None:
        """Shut down in order."""
        if self._process is not None:
            await self._process.stop()
            self._process = None
        self._remove_socket_directory()

    async def restart(self) -> None:
        """Shut down in order and start again, at the same address."""
        assert self._process is not None
        await self._process.stop()
        await self._start()

    async def kill(self) -> None:
        """Send SIGKILL to the server and all its processes at once. The address stays for the next start."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        processes = [server, *server.children(recursive=True)]
        self._signal(signal.SIGKILL)
        await self._process.stop()
        self._process = None
        await asyncio.to_thread(psutil.wait_procs, processes, timeout=30)

    def pause(self) -> None:
        """Send SIGSTOP to each process: connections stay open, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        for process in [server, *server.children(recursive=True)]:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    async def standby(self, directory: Path) -> "PostgresServer":
        """Start a copy that replays what this server writes."""
        copy = PostgresServer(directory, self._settings)
        copy._identity = self._identity
        await copy._copy(self)
        await copy._start()
        return copy

    async def follow(self, primary: "PostgresServer") -> None:
        """Become a standby of `primary` again, by a new copy at the same address."""
        assert self._process is not None
        await self._process.stop()
        shutil.rmtree(self._cluster)
        await self._copy(primary)
        await self._start()

    async def _copy(self, primary: "PostgresServer") -> None:
        self._make_cluster_directory()
        await self._run(
            "pg_basebackup",
            f"--pgdata={self._cluster}",
            f"--dbname={primary.dsn}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        )

    async def replayed(self, primary: "PostgresServer") -> None:
        """Wait until this standby has everything that is written on `primary` now."""
        source, copy = await asyncpg.connect(primary.dsn), await asyncpg.connect(self.dsn)
        try:
            wanted = await source.fetchval("SELECT pg_current_wal_lsn()")
            async with asyncio.timeout(_READY_SECONDS):
                while True:
                    if await copy.fetchval("SELECT pg_last_wal_replay_lsn() >= $1", wanted):
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await source.close()
            await copy.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _make_cluster_directory(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._cluster.mkdir(mode=0o700)
        self._own(self._cluster)

    def _configure(self) -> None:
        with (self._cluster / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            for name, value in {**_CONFIGURATION, **self._settings}.items():
                configuration.write(f"{name} = {value}\n")

    async def _start(self) -> None:
        if self._socket_directory is None:
            self._socket_directory = Path(tempfile.mkdtemp(prefix="groundline-"))
            self._own(self._socket_directory)
        options = ("-D", str(self._cluster), "-c", f"unix_socket_directories={self._socket_directory}")
        command = Command(
            name="postgres",
            argv=(str(server_binaries() / "postgres"), *options),
            env=_ENVIRONMENT,
            stop_signal=signal.SIGINT,
            grace_seconds=60.0,  # if killed before its last checkpoint ends, it has not shut down in order
            orphan_signal=signal.SIGINT,
            identity=self._identity,
        )
        self._process = await ChildProcess.start(command, self._directory / "postgres.log")
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                if self._process.returncode is not None:
                    # A process that was forked while its server was killed ends when it notices.
                    assert _STILL_IN_USE in self._process.obituary(), self._process.obituary()
                    await asyncio.sleep(_POLL_SECONDS)
                    self._process = await ChildProcess.start(command, self._directory / "postgres.log")
                try:
                    connection = await asyncpg.connect(self.dsn)
                except (OSError, asyncpg.CannotConnectNowError):
                    await asyncio.sleep(_POLL_SECONDS)
                else:
                    await connection.close()
                    return

    async def _run(self, program: str, *options: str) -> None:
        command = Command(
            name=program,
            argv=(str(server_binaries() / program), *options),
            env=_ENVIRONMENT,
            identity=self._identity,
        )
        child = await ChildProcess.start(command, self._directory / f"{program}.log")
        assert await child.wait() == 0, child.obituary()

    def _own(self, path: Path) -> None:
        if self._identity is not None:
            os.chown(path, self._identity.uid, self._identity.gid)

    def _remove_socket_directory(self) -> None:
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)
            self._socket_directory = None
