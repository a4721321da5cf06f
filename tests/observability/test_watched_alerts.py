"""Alerts made to fire by their faults in a running suite, and gone after them.

A minute of a rule is a second here; of GroundlineSpendingJumped, which looks back a week, an hour is five.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import asyncpg
import grpc
from groundline.v1 import retriever_service_pb2, retriever_service_pb2_grpc
from groundline_cli.stack.suite import LOCAL_PRINCIPAL
from groundline_runtime.context import PRINCIPALS_KEY
from groundline_tests.generator.providers import Reply
from groundline_tests.observability.watched import (
    ALERT_SECONDS,
    WIRE,
    Watched,
    fires_and_resolves,
    firing,
    silent,
)

BY_MODEL: Final = {"rerank": {"strategy": "RERANK_STRATEGY_LLM"}}


async def test_a_suite_that_works_has_no_alert(watched: Watched) -> None:
    async with watched.going_on(watched.ask, watched.search):
        await watched.prometheus.wait_for("count(up == 1) >= 8 and on () sum(groundline_answers_total) > 20")
        # Alerts that look back for ten minutes and then hold for ten more have had time to fire.
        await watched.prometheus.wait_for("sum(groundline_answers_total offset 21s) > 0")
        ringing = {alert.name for alert in await watched.prometheus.alerts() if alert.state == "firing"}
    # How fast it is beside other tests says nothing, nor does how evenly it spends within seconds.
    assert ringing <= {"GroundlineAnswersSlow", "GroundlineSearchesSlow", "GroundlineSpendingJumped"}


async def test_a_service_that_hangs(watched: Watched) -> None:
    names = ("GroundlineServiceDown", "GroundlineSearchesDegraded", "GroundlineAnswersDegraded")
    works = [partial(work, options=BY_MODEL) for work in (watched.ask, watched.search)]
    async with fires_and_resolves(watched, *names), watched.going_on(*works):
        with watched.hanging("reranker"):
            await firing(watched, *names)


async def test_a_backend_that_the_gateway_finds_unhealthy(watched: Watched) -> None:
    names = ("GroundlineNoHealthyBackend", "GroundlineRequestsFail")
    # The gateway gives a chat up after some seconds, so few would be a small share.
    async with fires_and_resolves(watched, *names), watched.going_on(watched.ask, side_by_side=20):
        with watched.hanging("coordinator"):
            await firing(watched, *names)


async def test_a_model_that_fails(watched: Watched) -> None:
    names = ("GroundlineModelFailing", "GroundlineModelPaused")
    async with fires_and_resolves(watched, *names), watched.going_on(watched.ask, side_by_side=3):
        watched.reply = WIRE.failure(500)
        try:
            await firing(watched, *names)
        finally:
            watched.reply = WIRE.answer("It works [1].")


async def test_a_model_that_is_slow(watched: Watched) -> None:
    async with fires_and_resolves(watched, "GroundlineAnswersSlow"):
        answer = WIRE.answer("It works [1].")
        watched.reply = Reply([6.0, *answer.steps])
        try:
            async with watched.going_on(watched.ask, side_by_side=30):
                await firing(watched, "GroundlineAnswersSlow")
        finally:
            watched.reply = answer


@asynccontextmanager
async def internal_searches(watched: Watched) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Provide searches by another service, of which the gateway holds none back."""
    async with grpc.aio.insecure_channel(watched.stack.ready["services"]["retriever"]) as channel:
        stub = retriever_service_pb2_grpc.RetrieverServiceStub(channel)
        request = retriever_service_pb2.SearchRequest(query="deployment", collection_ids=["examples"])

        async def search() -> None:
            with suppress(grpc.aio.AioRpcError):
                await stub.Search(request, timeout=20, metadata=((PRINCIPALS_KEY, LOCAL_PRINCIPAL),))

        yield search


async def test_a_database_in_which_everything_waits(watched: Watched, tmp_path: Path) -> None:
    names = ("GroundlineOverloaded", "GroundlineDatabaseOutOfReach", "GroundlineSearchesSlow")
    for number in range(300):  # more than workers hold at a time
        (tmp_path / f"{number}.md").write_text(f"# Note {number}\n\nNote {number} says {number}.\n")
    async with fires_and_resolves(watched, *names, "GroundlineIngestionStuck"):
        connection = await asyncpg.connect(watched.stack.ready["database_url"])
        try:
            async with connection.transaction():
                await connection.execute("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE")
                storing = asyncio.create_task(
                    watched.stack.command("ingest", str(tmp_path), "--collection", "notes")
                )
                async with (
                    internal_searches(watched) as search,
                    watched.going_on(search, side_by_side=150),
                    watched.going_on(watched.search),
                ):
                    await firing(watched, *names)
                await firing(watched, "GroundlineIngestionStuck")
        finally:
            await connection.close()
        assert (await storing).code == 0


async def test_an_error_that_nobody_foresaw(watched: Watched) -> None:
    async with fires_and_resolves(watched, "GroundlineUnexpectedErrors"):
        connection = await asyncpg.connect(watched.stack.ready["database_url"])
        try:
            await connection.execute("ALTER TABLE threads RENAME COLUMN title TO heading")
            async with watched.going_on(lambda: watched.client.get("/api/threads")):
                await firing(watched, "GroundlineUnexpectedErrors")
        finally:
            await connection.execute("ALTER TABLE threads RENAME COLUMN heading TO title")
            await connection.close()


async def test_documents_that_cannot_be_read(watched: Watched, tmp_path: Path) -> None:
    async with fires_and_resolves(watched, "GroundlineIngestionFailing"):
        for number in range(10):
            (tmp_path / f"{number}.pdf").write_bytes(f"%PDF-1.7\nbroken {number}".encode())
        await watched.stack.command("ingest", str(tmp_path), "--collection", "notes")
        await firing(watched, "GroundlineIngestionFailing")


async def test_searches_that_find_nothing(watched: Watched) -> None:
    created = await watched.client.post("/api/collections", json={"collectionId": "empty"})
    created.raise_for_status()
    async with fires_and_resolves(watched, "GroundlineSearchesEmpty"):
        async with watched.going_on(lambda: watched.search("empty")):
            await firing(watched, "GroundlineSearchesEmpty")
        async with watched.going_on(watched.search):
            await silent(watched, "GroundlineSearchesEmpty")


async def test_a_chat_that_costs_more_than_all_before(watched: Watched) -> None:
    assert (await watched.ask()).is_success
    was_up_a_day_ago = 'up{service="generator"} offset 120s'
    await watched.prometheus.wait_for(was_up_a_day_ago, seconds=ALERT_SECONDS)
    async with fires_and_resolves(watched, "GroundlineSpendingJumped"):
        watched.reply = Reply([WIRE.text("It works [1]."), WIRE.end(), WIRE.usage(10_000_000, 0, 5)])
        try:
            assert (await watched.ask()).is_success
            await firing(watched, "GroundlineSpendingJumped")
        finally:
            watched.reply = WIRE.answer("It works [1].")
