"""Caches of prompts' beginnings at a provider, shared by calls and requests."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

LIFE_SECONDS: Final = 600
"""Time after which the provider drops a cache by itself, in seconds."""

_USED_FOR_SECONDS: Final = LIFE_SECONDS / 2
"""Maximum age at which a cache is used for a further request, in seconds, so that none ends while in use."""

_LINGER_SECONDS: Final = 60.0
"""Time that an unused cache is kept, in seconds: a document's chunks come in several requests, one after the
other."""


@dataclass(slots=True, eq=False)
class _Kept:
    name: asyncio.Task[str | None]
    used_until: float
    users: int = 0
    end: asyncio.TimerHandle | None = None


class PrefixCaches:
    """Caches by model, system and prefix. `create` makes one and returns its name, or None if it cannot;
    `delete` takes model and name."""

    def __init__(
        self,
        create: Callable[[str, str, str], Coroutine[None, None, str | None]],
        delete: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._create = create
        self._delete = delete
        self._kept: dict[tuple[str, str, bytes], _Kept] = {}
        self._deletions: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self, model: str, system: str, prefix: str) -> AsyncIterator[str | None]:
        """Yield the name of the cache, which lasts for the block; None if it could not be made."""
        key = (model, system, hashlib.sha256(prefix.encode()).digest())
        kept = self._kept.get(key)
        now = asyncio.get_running_loop().time()
        if kept is None or kept.used_until < now:
            name = asyncio.create_task(self._create(model, system, prefix))
            kept = self._kept[key] = _Kept(name, now + _USED_FOR_SECONDS)
        kept.users += 1
        if kept.end is not None:
            kept.end.cancel()
            kept.end = None
        try:
            # A caller that is cancelled while it is being made does not cancel it for the others.
            yield await asyncio.shield(kept.name)
        finally:
            kept.users -= 1
            if kept.users == 0:
                if kept.name.done() and _failed(kept.name):
                    self._forget(key, kept)
                else:
                    loop = asyncio.get_running_loop()
                    kept.end = loop.call_later(_LINGER_SECONDS, self._end, key, kept)

    async def aclose(self) -> None:
        """Delete all caches."""
        for key, kept in list(self._kept.items()):
            if kept.end is not None:
                kept.end.cancel()
            self._end(key, kept)
        await asyncio.gather(*self._deletions)

    def _forget(self, key: tuple[str, str, bytes], kept: _Kept) -> None:
        if self._kept.get(key) is kept:
            del self._kept[key]

    def _end(self, key: tuple[str, str, bytes], kept: _Kept) -> None:
        self._forget(key, kept)
        deletion = asyncio.create_task(self._deleted(key[0], kept.name))
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)

    async def _deleted(self, model: str, name: asyncio.Task[str | None]) -> None:
        await asyncio.wait((name,))
        if not _failed(name):
            await self._delete(model, str(name.result()))


def _failed(name: asyncio.Task[str | None]) -> bool:
    return name.cancelled() or name.exception() is not None or name.result() is None
