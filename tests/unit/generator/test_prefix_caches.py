import asyncio

import pytest
from groundline_generator.adapters.prefix_caches import PrefixCaches


class Provider:
    """Makes caches when it is let, and records them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.deleted: list[str] = []
        self.ready = asyncio.Event()
        self.refuses = False
        self.caches = PrefixCaches(self._create, self._delete)

    async def _create(self, model: str, system: str, prefix: str) -> str | None:
        await self.ready.wait()
        if self.refuses:
            return None
        self.made.append(prefix)
        return f"cache {len(self.made)}"

    async def _delete(self, model: str, name: str) -> None:
        self.deleted.append(name)

    async def name(self, prefix: str = "document") -> str | None:
        async with self.caches.use("m", "system", prefix) as name:
            return name


async def test_requests_side_by_side_and_after_each_other_share_one() -> None:
    provider = Provider()
    provider.ready.set()
    assert list(await asyncio.gather(provider.name(), provider.name())) == ["cache 1", "cache 1"]
    assert await provider.name() == "cache 1"
    assert await provider.name("another") == "cache 2"
    assert provider.deleted == []
    await provider.caches.aclose()
    assert provider.deleted == ["cache 1", "cache 2"]


async def test_who_leaves_while_it_is_made_does_not_take_it_from_the_others() -> None:
    provider = Provider()
    first, second = asyncio.create_task(provider.name()), asyncio.create_task(provider.name())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    provider.ready.set()
    assert await second == "cache 1"
    await provider.caches.aclose()
    assert provider.deleted == ["cache 1"]


async def test_what_nobody_waited_for_is_deleted_too() -> None:
    provider = Provider()
    only = asyncio.create_task(provider.name())
    await asyncio.sleep(0)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    provider.ready.set()
    await provider.caches.aclose()
    assert provider.deleted == ["cache 1"]


async def test_one_that_could_not_be_made_is_tried_again_by_the_next_request() -> None:
    provider = Provider()
    provider.ready.set()
    provider.refuses = True
    assert await provider.name() is None
    provider.refuses = False
    assert await provider.name() == "cache 1"
    await provider.caches.aclose()
