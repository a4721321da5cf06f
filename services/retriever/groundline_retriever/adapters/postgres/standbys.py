"""Reads on standbys of the primary: never on one that is further behind than promised, and never only there.

A standby that is behind, late, lost or promoted gives no answer, and the primary is asked. So it costs a
search time, MAXIMUM_SECONDS at most, but never fails it.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import structlog
from groundline_database import REPLAYED_POSITION, WRITTEN_POSITION, Connection, Pool
from groundline_runtime.context import remaining_seconds

from groundline_retriever.late import LateTasks
from groundline_retriever.telemetry import READS, STANDBY_LAG

MAXIMUM_SECONDS: Final = 2.0
"""Maximum time of one read on a standby, in seconds; then the primary is asked."""

SHARE: Final = 0.4
"""Maximum share of the request's remaining time for that: the rest is the primary's."""

PROBE_SECONDS: Final = 1.0
"""Time between two attempts at a standby that was lost, and maximum time of one, in seconds."""

LOOK_SECONDS: Final = 10.0
"""Time between two looks at how far a standby is behind, in seconds, for when there are no reads."""

SAMPLES: Final = 8
"""Number of times that the primary's position is asked for within the allowed lag."""

_WRITTEN: Final = f"SELECT {WRITTEN_POSITION}"
_REPLAYED: Final = f"SELECT {REPLAYED_POSITION}"

_log = structlog.get_logger(__name__)


class _NoStandbyError(Exception):
    """The server does not replay: it was promoted."""


class _BehindError(Exception):
    """The standby has not replayed as far as the read requires."""


@dataclass(frozen=True, slots=True)
class _Standby:
    name: str
    pool: Pool
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set while it is not to be asked."""


class Standbys:
    """Standbys of `primary`, by name. A read goes to one that has replayed the primary's changes of
    `max_lag_seconds` ago. Use it as made by `following`."""

    def __init__(self, primary: Pool, standbys: Mapping[str, Pool], max_lag_seconds: float) -> None:
        self._primary = primary
        self._standbys = [_Standby(name, pool) for name, pool in standbys.items()]
        self._max_lag_seconds = max_lag_seconds
        self._turns = itertools.count()
        self._written: deque[tuple[float, int]] = deque(maxlen=2 * SAMPLES)
        """Times at which the primary was asked for its position, and its answers."""
        self._late = LateTasks()

    @classmethod
    @asynccontextmanager
    async def following(
        cls, primary: Pool, standbys: Mapping[str, Pool], max_lag_seconds: float
    ) -> AsyncIterator["Standbys"]:
        """Follow the primary's position, and which standbys answer, until the end."""
        followed = cls(primary, standbys, max_lag_seconds)
        for standby in followed._standbys:
            standby.lost.set()
        tasks = [
            asyncio.create_task(work)
            for work in (followed._follow(), *map(followed._watch, followed._standbys))
        ]
        try:
            yield followed
        finally:
            for task in (*tasks, *followed._late):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def read[T](self, work: Callable[[Connection], Awaitable[T]], min_position: int) -> T | None:
        """Return the result of `work` on a standby that has everything up to `min_position`; None if the
        primary is to be asked. Work that is cut off or fails is done again there, so it must change
        nothing."""
        answer, outcome = await self._read(work, min_position)
        READS.add(1, {"server": "primary" if answer is None else "standby", "reason": outcome})
        return answer

    async def _read[T](
        self, work: Callable[[Connection], Awaitable[T]], min_position: int
    ) -> tuple[T | None, str]:
        ready = [standby for standby in self._standbys if not standby.lost.is_set()]
        if not ready:
            return None, "lost"
        required = self._required(min_position)
        if required is None:
            return None, "unknown"
        standby = ready[next(self._turns) % len(ready)]
        left = remaining_seconds()
        seconds = MAXIMUM_SECONDS if left is None else min(MAXIMUM_SECONDS, left * SHARE)
        try:
            return await self._within(seconds, self._read_on(standby, work, required)), ""
        except _BehindError:
            return None, "behind"
        except TimeoutError:
            self._lose(standby, "no answer in time")
            return None, "late"
        except Exception as error:
            # Only its class: the text may hold SQL or values.
            self._lose(standby, type(error).__name__)
            return None, "failed"

    async def _read_on[T](
        self, standby: _Standby, work: Callable[[Connection], Awaitable[T]], required: int
    ) -> T:
        async with standby.pool.acquire() as connection:
            # On the connection that reads: one name may stand for several servers.
            if await self._replayed(standby, connection) < required:
                raise _BehindError
            return await work(connection)

    async def _replayed(self, standby: _Standby, connection: Connection) -> int:
        """Return the position that a standby has reached, and measure by it how far it is behind."""
        replayed: int | None = await connection.fetchval(_REPLAYED)
        if replayed is None:
            raise _NoStandbyError
        if self._written:
            STANDBY_LAG.set(max(self._written[-1][1] - replayed, 0), {"standby": standby.name})
        return replayed

    def _required(self, min_position: int) -> int | None:
        """Return the position that a standby must have reached; None if the primary has not been heard of
        lately."""
        oldest = time.monotonic() - self._max_lag_seconds
        while self._written and self._written[0][0] < oldest:
            self._written.popleft()
        # Its later answers were at least its position then.
        return max(self._written[0][1], min_position) if self._written else None

    async def _follow(self) -> None:
        while True:
            asked = time.monotonic()
            try:
                written = await self._within(self._max_lag_seconds, self._ask_primary())
                self._written.append((asked, written))
            except Exception as error:
                _log.warning("primary_position_unknown", error=type(error).__name__)
            await asyncio.sleep(self._max_lag_seconds / SAMPLES)

    async def _ask_primary(self) -> int:
        async with self._primary.acquire() as connection:
            written: int = await connection.fetchval(_WRITTEN)
            return written

    async def _watch(self, standby: _Standby) -> None:
        """Look how far a standby is behind, and try a lost one until it answers as one."""
        while True:
            # Whether it is lost, reads tell.
            with suppress(Exception):
                await self._within(PROBE_SECONDS, self._probe(standby))
                if standby.lost.is_set():
                    standby.lost.clear()
                    _log.info("standby_found", standby=standby.name)
            if standby.lost.is_set():
                await asyncio.sleep(PROBE_SECONDS)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(standby.lost.wait(), LOOK_SECONDS)

    async def _probe(self, standby: _Standby) -> None:
        async with standby.pool.acquire() as connection:
            await self._replayed(standby, connection)

    def _lose(self, standby: _Standby, why: str) -> None:
        if not standby.lost.is_set():
            _log.warning("standby_lost", standby=standby.name, error=why)
            standby.lost.set()

    async def _within[T](self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which is left behind when the time is over."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task}, timeout=seconds)
            if not task.done():
                raise TimeoutError
            return task.result()
        finally:
            self._late.leave([task])


def urls_of_hosts(url: str, database_url: str) -> Mapping[str, str]:
    """Return, for a URL with several hosts as libpq spells them, one URL for each, by its host and port.

    `postgresql://user@one:5432,two/database`, or `?host=one,two&port=5432` with one port for all or one for
    each. User, password, database and parameters that it does not name come from `database_url`. Raises
    ValueError if it has no host, or the numbers of hosts and ports differ.
    """
    parts, base = urlsplit(url), urlsplit(database_url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    shared = dict(parse_qsl(base.query, keep_blank_values=True))
    shared = {name: value for name, value in shared.items() if name not in ("host", "port")} | query
    user, _, location = parts.netloc.rpartition("@")
    user = user or base.netloc.rpartition("@")[0]
    path = parts.path.rstrip("/") or base.path
    hosts = [host for host in location.split(",") if host]
    if hosts:
        places = {host: (host, shared) for host in hosts}
    else:
        hosts, ports = shared.pop("host", "").split(","), shared.pop("port", "").split(",")
        if not all(hosts):
            raise ValueError("a host is missing")
        if len(ports) not in (1, len(hosts)):
            raise ValueError("as many ports as hosts are needed, or one")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        places = {
            host: ("", shared | {"host": host} | ({"port": port} if port else {}))
            for host, port in zip(hosts, ports, strict=True)
        }
    return {
        name: urlunsplit(
            (base.scheme, f"{user}@{place}" if user else place, path, urlencode(parameters, safe="/"), "")
        )
        for name, (place, parameters) in places.items()
    }
