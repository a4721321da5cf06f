"""Searches of an earlier time: kept by the ingestor's stores, found by the retriever."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest
from groundline.v1 import collection_pb2, coordinator_service_pb2, options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_cli.commands.traces import find_traces
from groundline_coordinator.service.quotas import CallerQuotas, QuotaLimits
from groundline_coordinator.service.verifying import VerificationService, VerifyLimits
from groundline_database import acquire
from groundline_indexing.collections import StoredCollection
from groundline_indexing.partitions import chunk_table
from groundline_indexing.revisions.past import PastChunks
from groundline_indexing.texts import PreparedChunk, Section
from groundline_ingestor.domain.work import NewVersion
from groundline_lexical import detect_lexical_index
from groundline_retriever.domain import Selection
from groundline_retriever.passages import Wanted
from groundline_runtime.context import Caller
from groundline_runtime.errors import InvalidArgumentError, NotFoundError
from groundline_signatures import signature
from groundline_tests.coordinator.fakes import (
    FakeCatalog,
    FakeGenerator,
    FakeQuotas,
    FakeRetriever,
    FakeThreads,
    collection,
)
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import lease
from groundline_tests.retriever.past import Words, World, world_on

LEAVE_27: Final = "Everyone has 27 days of leave a year."
LEAVE_30: Final = "Everyone has 30 days of leave a year."
NOTICE: Final = "Notice is given three months ahead."


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with world_on(database_url) as world:
        yield world


async def refused(world: World, *given: Any, **more: Any) -> str:
    with pytest.raises(InvalidArgumentError) as refusal:
        await world.found(*given, **more)
    [violation] = refusal.value.violations
    assert violation.field == "as_of"
    return violation.description


async def checked_against(world: World, reader: str, as_of: datetime) -> list[str]:
    """Return the passages by which a claim is judged that a caller has checked as of a time."""

    class Retriever(FakeRetriever):
        async def search(self, request: pb.SearchRequest) -> pb.SearchResponse:
            return await world.service.search(Caller((reader,)), request)

    generator, catalog = FakeGenerator(), FakeCatalog()
    catalog.add(collection("staff"))
    service = VerificationService(
        retriever=Retriever(),
        generator=generator,
        catalog=catalog,
        quotas=CallerQuotas(FakeQuotas(FakeThreads()), QuotaLimits()),
        limits=VerifyLimits(20.0, 20.0),
    )
    request = coordinator_service_pb2.VerifyRequest(text=LEAVE_27, collection_ids=["staff"])
    request.as_of.FromDatetime(as_of)
    begun = await service.begin(Caller((reader,)), request)
    assert [event async for event in service.verify(begun)]
    [call] = generator.judge_calls
    return [passage.text for passage in call.passages]


async def test_a_time_without_a_searchable_past_is_refused_with_the_reason(world: World) -> None:
    before = await world.now()
    staff = await world.collection("staff")
    await world.collection("other", collection_pb2.HistorySettings(everything=True))
    await world.store(staff, LEAVE_27)
    now = await world.now()
    assert "begins" in await refused(world, before)
    assert "future" in await refused(world, now + timedelta(hours=1))
    assert "searchable, which other does not have" in await refused(world, now, name="other")
    assert "no collection" in await refused(world, before, name="")
    assert await world.texts(now, name="") == {LEAVE_27}


async def test_what_was_current_then_is_found_with_its_revision_and_place(world: World) -> None:
    staff = await world.collection("staff")
    moments = []
    for texts in ((LEAVE_27, NOTICE), (NOTICE, LEAVE_30), (NOTICE, LEAVE_30, "Leave is taken in days.")):
        await world.store(staff, *texts)
        moments.append((await world.now(), texts))
    for moment, texts in moments:
        found = await world.found(moment)
        assert {chunk.text for chunk in found} == set(texts)
        for chunk in found:
            span = pb.RevisionSpan(
                collection_id="staff",
                document_id=chunk.document_id,
                revision=chunk.revision,
                start_offset=chunk.start_offset,
                end_offset=chunk.end_offset,
            )
            [opened] = await world.chunks.revision_texts([span], ())
            assert opened.text == chunk.text
            assert chunk.chunk_index == texts.index(chunk.text)
    assert await world.texts() == set(moments[-1][1])
    # Chunks that did not change were stored once.
    assert await world.past(staff) == [LEAVE_27]
    # A passage has the chunks around it that its revision had.
    options = options_pb2.SearchOptions(retrieval=options_pb2.RetrievalOptions(adjacent_chunks=1))
    request = pb.SearchRequest(query="27 days", collection_ids=["staff"], options=options)
    request.options.rerank.top_k = 1
    request.as_of.FromDatetime(moments[0][0])
    [passage] = (await world.service.search(Caller(()), request)).passages
    assert [chunk.text for chunk in passage.adjacent_chunks] == [NOTICE]


async def test_metadata_and_a_revision_that_is_put_back_are_those_of_then(world: World) -> None:
    staff = await world.collection("staff")
    moments = []
    for texts, year in ((LEAVE_27, "2024"), (LEAVE_30, "2025"), (LEAVE_27, "2024"), (LEAVE_27, "2026")):
        await world.store(staff, texts, year=year)
        moments.append((await world.now(), texts, year))
    # Without new chunks.
    version = replace(a_version("leave.md", LEAVE_27), metadata={"year": "2027"})
    assert await world.stores.versions.refresh(staff, version, ())
    moments.append((await world.now(), LEAVE_27, "2027"))
    for moment, text, year in moments:
        assert await world.texts(moment, filter={"year": year}) == {text}
        assert not await world.texts(moment, filter={"year": "2023"})
    names = [{chunk.revision for chunk in await world.found(moment)} for moment, *_ in moments]
    assert names[0] == names[2] != names[1]


async def test_words_weigh_at_a_time_of_which_nothing_is_current_any_more(world: World) -> None:
    staff = await world.collection("staff")
    await world.store(staff, "There are many days.", LEAVE_27)
    before = await world.now()
    await world.store(staff, NOTICE)
    by_words = options_pb2.RetrievalOptions(mode=options_pb2.RETRIEVAL_MODE_KEYWORD)
    best, *_ = await world.found(before, options=options_pb2.SearchOptions(retrieval=by_words))
    assert best.text == LEAVE_27


async def test_words_weigh_the_same_whatever_was_searched_before(world: World, database_url: str) -> None:
    staff = await world.collection("staff")
    await world.store(staff, LEAVE_27, "There are many days.", "The year is long.", LEAVE_30)
    before = await world.now()
    await world.store(staff, NOTICE)

    async def found(world: World, query: str) -> list[passage_pb2.Passage]:
        request = pb.SearchRequest(query=query, collection_ids=["staff"])
        request.options.retrieval.mode = options_pb2.RETRIEVAL_MODE_KEYWORD
        request.as_of.FromDatetime(before)
        return list((await world.service.search(Caller(()), request)).passages)

    queries = ("year", "many days", "days of a long year for 27")
    known = [await found(world, query) for query in queries][-1]
    assert known
    async with world_on(database_url) as fresh:
        assert await found(fresh, queries[-1]) == known


async def test_who_was_let_in_later_or_may_no_longer_read_sees_no_past(world: World) -> None:
    staff = await world.collection("staff")
    await world.store(staff, LEAVE_27, readers=("user:ann", "user:cy"))
    before = await world.now()
    await world.store(staff, LEAVE_30, readers=("user:ann", "user:bob"))
    # Its text was the same, its readers were not.
    await world.store(staff, LEAVE_30, readers=("user:ann", "user:bob", "user:dan"))
    now = await world.now()
    assert await world.texts(before, "user:ann") == {LEAVE_27}
    for other in ("user:bob", "user:cy", "user:dan"):
        assert not await world.texts(before, other), other
    # Nor is a text checked against it.
    for reader, texts in (("user:ann", [LEAVE_27]), ("user:bob", []), ("user:cy", [])):
        assert await checked_against(world, reader, before) == texts, reader
    assert await world.texts(now, "user:dan") == {LEAVE_30}
    # Nor who could read the collection when he searched it last.
    async with acquire(world.pool) as connection:
        await connection.execute("UPDATE collections SET readers = '{user:eve}'")
    with pytest.raises(NotFoundError):
        await world.texts(before, "user:ann")


async def test_deleting_leaves_no_trace_of_the_past(world: World) -> None:
    staff = await world.collection("staff")
    document_id = await world.store(staff, LEAVE_27, NOTICE)
    before = await world.now()
    await world.store(staff, NOTICE)
    assert await find_traces(world.pool, "27 days of leave")
    await world.stores.documents.delete(staff, document_id)
    assert await find_traces(world.pool, "27 days of leave") == []
    assert not await world.texts(before)


async def test_what_is_no_longer_kept_is_neither_found_nor_stored(world: World) -> None:
    staff = await world.collection("staff", collection_pb2.HistorySettings(days=30, searchable=True))
    await world.store(staff, LEAVE_27)
    async with acquire(world.pool) as connection:
        await connection.execute("UPDATE documents SET update_time = update_time - interval '50 days'")
        await connection.execute("UPDATE chunks SET update_time = update_time - interval '50 days'")
        await connection.execute("UPDATE collections SET history_since = now() - interval '60 days'")
    await world.store(staff, LEAVE_30)
    now = await world.now()
    assert await world.texts(now - timedelta(days=29)) == {LEAVE_27}
    assert "begins" in await refused(world, now - timedelta(days=31))
    async with acquire(world.pool) as connection:
        await connection.execute("UPDATE past_revisions SET valid_to = valid_to - interval '40 days'")
        await connection.execute("UPDATE chunks SET valid_to = valid_to - interval '40 days'")
    await world.stores.past.tend()
    assert await world.past(staff) == []
    async with acquire(world.pool) as connection:
        assert not await connection.fetchval("SELECT count(*) FROM past_revisions")
    # Revisions that were dropped do not come back when the retention grows.
    found = await world.stores.collections.find("staff")
    assert found is not None
    found.message.settings.history.days = 90
    assert await world.stores.collections.update(found.message)
    assert "begins" in await refused(world, now - timedelta(days=31))


async def test_the_past_spans_several_partitions(world: World) -> None:
    staff = await world.collection("staff")
    async with acquire(world.pool) as connection:
        small = PastChunks(world.pool, await detect_lexical_index(connection), least_bytes=1)
        # A partition of the past is full at the size of the present's, which other tests have filled.
        present = await connection.fetchval("SELECT partition_id FROM collections")
        await connection.execute(f"VACUUM FULL chunks_p{present}")
    moments = []
    for days in range(20, 24):
        text = LEAVE_27.replace("27", str(days))
        await world.store(staff, text, NOTICE)
        moments.append((await world.now(), text))
        await small.tend()
        for earlier, text_then in moments:
            assert await world.texts(earlier) == {text_then, NOTICE}
    async with acquire(world.pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM past_partitions") > 1
        # One that was searched, and is gone by the next search.
        row = await connection.fetchrow(
            "DELETE FROM past_partitions WHERE partition_id = "
            "(SELECT min(partition_id) FROM past_partitions) RETURNING partition_id, collection_id"
        )
        assert row is not None
        table = chunk_table(row["partition_id"])
        await connection.execute(f"ALTER TABLE {table} RENAME TO gone")
        try:
            moment, text = moments[-1]
            assert await world.texts(moment) == {text, NOTICE}
        finally:
            await connection.execute(f"ALTER TABLE gone RENAME TO {table}")
            await connection.execute("INSERT INTO past_partitions VALUES ($1, $2)", *row.values())


async def test_what_is_replaced_while_it_is_searched_is_read_from_where_it_went(world: World) -> None:
    staff = await world.collection("staff")
    await world.store(staff, LEAVE_27)
    await world.store(staff, LEAVE_30)
    moment = await world.now()
    found = await world.chunks.collections(["staff"], (), options_pb2.INDEX_CHOICE_CURRENT)
    searched = await world.chunks.collections_as_of(found, moment, are_named=True)
    assert not any(each.is_past for each in searched)
    hits = await world.chunks.keyword(searched, "leave", limit=5, selection=Selection((), as_of=moment))
    wanted = Wanted("staff", [hit.chunk_id for each in hits.lists for hit in each])
    await world.store(staff, NOTICE)
    read = await world.chunks.fetch_as_of([wanted], (), moment, searched)
    assert [each.chunk.text for each in read] == [LEAVE_30]


async def test_an_index_that_is_put_into_use_keeps_the_past(world: World) -> None:
    staff = await world.collection("staff")
    await world.store(staff, LEAVE_27, NOTICE)
    before = await world.now()
    await world.store(staff, LEAVE_30, NOTICE)
    await reindex(world, staff, staff.settings, f"{LEAVE_30}\n{NOTICE}")
    assert await world.texts(before) == {LEAVE_27, NOTICE}
    assert await world.texts(await world.now()) == {f"{LEAVE_30}\n{NOTICE}"}


async def test_another_language_begins_the_past_anew_and_the_setting_ends_it(world: World) -> None:
    staff = await world.collection("staff")
    await world.store(staff, LEAVE_27)
    before = await world.now()
    await world.store(staff, LEAVE_30)
    settings = collection_pb2.CollectionSettings()
    settings.CopyFrom(staff.settings)
    settings.lexical.language = "german"
    await reindex(world, staff, settings, LEAVE_30)
    assert "begins" in await refused(world, before)
    assert await world.texts(await world.now()) == {LEAVE_30}
    found = await world.stores.collections.find("staff")
    assert found is not None
    found.message.settings.ClearField("history")
    assert await world.stores.collections.update(found.message)
    assert "does not have" in await refused(world, await world.now())
    assert await world.past(staff) == []


async def reindex(
    world: World, staff: StoredCollection, settings: collection_pb2.CollectionSettings, text: str
) -> None:
    await world.stores.reindex.begin(staff, settings, "")
    [item] = await lease(world.stores)
    stored = await world.stores.reindex.text("staff", str(item.document_id))
    assert stored is not None
    chunk = PreparedChunk(Section(text, 0, len(text)), "", text, signature(text))
    vectors = np.array([Words.embed(text)], np.float16)
    new = NewVersion(stored.version, [chunk], vectors, stored.segments)
    await world.stores.reindex.store(item, stored.version_number, new)
    assert await world.stores.reindex.settle(60)
