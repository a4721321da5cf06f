"""Envoy's audit log on its way into PostgreSQL.

Envoy writes lines into a file beside its configuration. They are read once a second; what has become entries
is freed in the file, and its position is stored in the same transaction, so that each line becomes one entry,
whichever process stops when.
"""

import asyncio
import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import structlog
from groundline_database import DatabaseSettings, Pool, open_pool

from groundline_gateway.auditing.entries import entry_of_line, is_recorded
from groundline_gateway.auditing.store import AuditStore, lost
from groundline_gateway.auditing.uses import KeyUses
from groundline_gateway.keys import KeyStore

SECONDS: Final = 1.0
READ_AT_ONCE: Final = 1 << 20
MAXIMUM_BACKLOG: Final = 32 << 20
"""Maximum bytes of lines that wait for the database, half of what a pod has for temporary files; older ones
are lost, which an entry tells."""
PRUNING_SECONDS: Final = 3600.0
RETRY_SECONDS: Final = 5.0
LAST_SECONDS: Final = 5.0
"""Maximum time for what is left when the gateway has ended."""

_FREE: Final = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of Linux."""

_log = structlog.get_logger(__name__)


class AuditLog:
    """A file of lines that become entries, by the id in its name."""

    def __init__(self, path: Path, log_id: UUID) -> None:
        self.path = path
        self.log_id = log_id
        self._position: int | None = None
        """Bytes that have become entries, or were lost; None until the database was asked."""
        self._lost = 0
        """Bytes of which no entries will be made, and that no entry has told of."""
        self.uses = KeyUses()

    @classmethod
    def beside(cls, path: Path) -> "AuditLog":
        """Return a new one beside the configuration in `path`."""
        log_id = uuid4()
        return cls(path.with_suffix(f".audit-{log_id}.log"), log_id)

    @classmethod
    def left(cls, path: Path) -> Sequence["AuditLog"]:
        """Return those that earlier processes left beside the configuration in `path`."""
        prefix = f"{path.stem}.audit-"
        found = []
        for file in sorted(path.parent.glob(f"{prefix}*.log")):
            with suppress(ValueError):
                found.append(cls(file, UUID(file.stem.removeprefix(prefix))))
        return found

    async def bound(self) -> int:
        """Give up the oldest lines of a backlog that is too large; return the bytes left to read."""
        if self._position is None:
            return 0
        # Not by a thread, which takes more than to ask the system, once a second.
        backlog = _size(self.path) - self._position
        excess = backlog - MAXIMUM_BACKLOG
        if excess > 0:
            _log.error("audit_entries_lost", bytes=excess)
            self._lost += excess
            self._position += excess
            await asyncio.to_thread(_free, self.path, self._position)
        return min(backlog, MAXIMUM_BACKLOG)

    async def store(self, store: AuditStore, *, with_reads: bool) -> None:
        """Make entries of the lines that are complete."""
        if self._position is None:
            self._position = await store.position(self.log_id)
        if await self.bound() <= 0:
            return
        while block := await asyncio.to_thread(_read, self.path, self._position):
            complete = block.rfind(b"\n") + 1
            if not complete and len(block) == READ_AT_ONCE:  # what was given up before the process ended
                self._lost += len(block)
                self._position += len(block)
                continue
            if not complete:
                return
            found = [lost(self._lost)] if self._lost else []
            lines = (entry_of_line(line.lstrip(b"\0")) for line in block[:complete].splitlines())
            calls = [each for each in lines if each is not None]
            found += [each for each in calls if is_recorded(each, with_reads=with_reads)]
            await store.append(self.log_id, self._position + complete, found)
            self.uses.see(calls)
            self._lost = 0
            self._position += complete
            await asyncio.to_thread(_free, self.path, self._position)

    async def remove(self, store: AuditStore) -> None:
        """Delete the file, of which everything has become entries."""
        self.path.unlink(missing_ok=True)
        await store.forget(self.log_id)


@asynccontextmanager
async def recording(
    database: DatabaseSettings, path: Path, log: AuditLog, *, retention_days: int, with_reads: bool
) -> AsyncIterator[None]:
    """Make entries, while the body runs, of what Envoy writes into the log, and delete those that are older
    than the retention; before, of what earlier processes left, and afterwards of what is there by then."""

    async def work(pool: Pool) -> None:
        store = AuditStore(pool)
        for each in AuditLog.left(path):
            if each.log_id != log.log_id:
                await each.store(store, with_reads=with_reads)
                await each.remove(store)
        pruned = -PRUNING_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            await log.store(store, with_reads=with_reads)
            await log.uses.note(KeyStore(pool))
            if loop.time() - pruned >= PRUNING_SECONDS:
                pruned = loop.time()
                await store.prune(retention_days)
            await asyncio.sleep(SECONDS)

    task = asyncio.create_task(_repeated(database, work, log.bound))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        try:
            # The file stays: Envoy may still write, and the next process makes entries of that.
            async with asyncio.timeout(LAST_SECONDS), open_pool(database) as pool:
                await log.store(AuditStore(pool), with_reads=with_reads)
        except Exception as error:  # whatever it was, the next process finds the file
            _log.warning("audit_log_left", error=type(error).__name__)


async def _repeated(
    database: DatabaseSettings, work: Callable[[Pool], Awaitable[None]], bound: Callable[[], Awaitable[int]]
) -> None:
    """Do work that never ends on a pool, again after each failure; only the first of several is logged."""
    is_away = False
    while True:
        started = asyncio.get_running_loop().time()
        try:
            async with open_pool(database) as pool:
                await work(pool)
        except Exception as error:  # the log must go on being stored
            if asyncio.get_running_loop().time() - started > RETRY_SECONDS:
                is_away = False
            if not is_away:
                is_away = True
                _log.warning("audit_not_stored", error=type(error).__name__)
        with suppress(OSError):
            await bound()
        await asyncio.sleep(RETRY_SECONDS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # Envoy has not begun it
        return 0


def _read(path: Path, position: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            return file.read(READ_AT_ONCE)
    except FileNotFoundError:
        return b""


def _free(path: Path, end: int) -> None:
    """Give the file system the space back of a file's first bytes, whose places stay; only on Linux."""
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if fallocate is None:
        return
    with path.open("rb+") as file:
        # Where the file system cannot do it, the space is free when the gateway ends.
        fallocate(file.fileno(), _FREE, ctypes.c_int64(0), ctypes.c_int64(end))
