"""Revisions of documents: which are kept, and who may read them."""

import random
import signal
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from groundline.v1 import collection_pb2, document_pb2
from groundline_database import Pool, acquire
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import TextSegment
from groundline_indexing.collections import StoredCollection
from groundline_indexing.documents import HandedIn
from groundline_indexing.partitions import chunk_table
from groundline_indexing.revisions import keeping as keeping_module
from groundline_ingestor.adapters.postgres import jobs
from groundline_ingestor.adapters.postgres.documents import versions
from groundline_ingestor.adapters.postgres.stores import Stores
from groundline_tests.ingestor.killed import COMMITTED, killed
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import (
    AS_EARLIER,
    EARLIER_SEGMENTS,
    a_hand_in,
    a_member,
    a_new,
    create,
    lease,
)

LINES = 9000
REVISIONS = 20
FEW = 2
KEPT_TEXT = ("revision_segments", "revision_texts", "revision_layouts")


async def keeping(stores: Stores, name: str, **history: Any) -> StoredCollection:
    """Create a collection that keeps this history."""
    collection = await create(stores, name)
    message = collection.message
    message.settings.history.CopyFrom(collection_pb2.HistorySettings(**history))
    assert await stores.collections.update(message)
    return collection


async def put(stores: Stores, collection: StoredCollection, text: str, **version: Any) -> str:
    """Store the text as the document a.md; return the document's id."""
    new = replace(a_version("a.md", text[:200] + str(len(text))), content_hash=b"c", **version)
    stored = replace(
        a_new(new, text[:200]), segments=[TextSegment(text)], principals=("user:ann", "user:bob")
    )
    [(document_id, _)] = await stores.versions.store(collection, [stored])
    return document_id


async def kept(
    stores: Stores, name: str, document_id: str, *principals: str
) -> Sequence[document_pb2.Revision]:
    return await stores.revisions.list_readable(name, document_id, principals, after=None, limit=1000)


async def texts(stores: Stores, name: str, document_id: str, *principals: str) -> list[str]:
    """Return the texts of the revisions that are kept, the one in use first."""
    return [
        (await stores.revisions.text(name, document_id, principals, each.revision)).text
        for each in await kept(stores, name, document_id, *principals)
    ]


@pytest.fixture
async def few_originals(pool: Pool) -> AsyncIterator[None]:
    """Have PostgreSQL refuse statements that write more than FEW parts of what was handed in."""
    tables = ("document_originals", "revision_originals")
    async with acquire(pool) as connection:
        await connection.execute(
            f"""
            CREATE FUNCTION refuse_many() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF (SELECT count(*) > {FEW} FROM added) THEN RAISE 'too many parts'; END IF;
                RETURN NULL;
            END $$
            """
        )
        for table in tables:
            await connection.execute(
                f"""
                CREATE TRIGGER refuse_many AFTER INSERT ON {table} REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION refuse_many()
                """
            )
    yield
    async with acquire(pool) as connection:
        await connection.execute("DROP FUNCTION refuse_many CASCADE")


async def cite(pool: Pool, document_id: str, revision: str) -> str:
    """Have an answer cite a revision; return its thread's id."""
    thread_id = str(uuid.uuid4())
    async with acquire(pool) as connection:
        await connection.execute(
            """
            WITH thread AS (INSERT INTO threads (thread_id, owner, title) VALUES ($3::uuid, 'user:ann', 'T')),
            message AS (
                INSERT INTO messages (thread_id, message_index, message_id, role, content)
                VALUES ($3::uuid, 1, $3::uuid, 'assistant', 'See [1].')
            )
            INSERT INTO cited_revisions VALUES ($1::uuid, $2, $3::uuid, 1)
            """,
            document_id,
            revision,
            thread_id,
        )
    return thread_id


async def test_an_excerpt_is_the_same_whether_the_sizes_of_parts_are_stored_or_not(
    stores: Stores, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "TEXTS_AT_ONCE", 2)
    monkeypatch.setattr(keeping_module, "LARGE_PARTS", 2)
    collection = await keeping(stores, "parts", everything=True)
    parts = ["Größe eins.\n", "Part two. " * 40, "And three."]
    new = replace(a_new(a_version("a.md", "parts"), "x"), segments=[TextSegment(part) for part in parts])
    [(document_id, _)] = await stores.versions.store(collection, [new])
    whole = "".join(parts)

    async def excerpt(start: int, limit: int, revision: str = "") -> str:
        return (
            await stores.revisions.text("parts", document_id, (), revision, start=start, limit=limit)
        ).text

    ranges = [(0, 5), (8, 10), (len(parts[0]), 3), (5, 1000), (len(whole) - 3, 10), (len(whole), 10)]
    expected = [whole[start : start + limit] for start, limit in ranges]
    assert [await excerpt(*each) for each in ranges] == expected
    async with acquire(pool) as connection:
        sizes = "SELECT array_agg(character_count ORDER BY part) FROM document_texts WHERE document_id = $1"
        assert sum(await connection.fetchval(sizes, document_id)) == len(whole)
        # As an earlier release left them.
        await connection.execute("UPDATE document_texts SET character_count = NULL")
    assert [await excerpt(*each) for each in ranges] == expected
    [replaced] = await kept(stores, "parts", document_id)
    await put(stores, collection, "Another text.")
    assert [await excerpt(*each, replaced.revision) for each in ranges] == expected


async def test_an_excerpt_of_a_long_revision_is_found_by_where_its_stretches_begin(stores: Stores) -> None:
    collection, chance = await keeping(stores, "long", everything=True), random.Random(7)
    lines = [f"Line {number}: {chance.random()} is written here. " * 8 + "\n" for number in range(9000)]
    first = "".join(lines)
    for number in range(0, 9000, 90):
        lines[number] = f"Another line {number}.\n"
    second = "".join(lines)
    for text in (first, second, "The last one."):
        document_id = await put(stores, collection, text)
    revisions = [each.revision for each in await kept(stores, "long", document_id)]

    async def excerpts() -> list[str]:
        return [
            (await stores.revisions.text("long", document_id, (), revision, start=start, limit=500)).text
            for revision in revisions
            for start in (0, 1_000_000, len(second) - 100, len(first) + 1)
        ]

    expected = [
        text[start : start + 500]
        for text in ("The last one.", second, first)
        for start in (0, 1_000_000, len(second) - 100, len(first) + 1)
    ]
    assert await excerpts() == expected


async def test_what_an_earlier_release_kept_is_read_beside_later_ones(stores: Stores, pool: Pool) -> None:
    collection = await keeping(stores, "earlier", everything=True)
    lines = [f"Line {number}: ä wird {number * number} Mal gesagt.\n" for number in range(400)]
    expected = ["".join(lines)]
    for number in (100, 300):
        lines[number] = f"Another line {number}.\n"
        expected.insert(0, "".join(lines))
    for text in reversed(expected):
        document_id = await put(stores, collection, text)
    async with acquire(pool) as connection, connection.transaction():
        await connection.execute(AS_EARLIER, document_id)
    lines[200] = "A third one.\n"
    expected.insert(0, "".join(lines))
    for text in (expected[0], "The last one."):
        await put(stores, collection, text)
    assert await texts(stores, "earlier", document_id) == ["The last one.", *expected]
    [_, *revisions] = [each.revision for each in await kept(stores, "earlier", document_id)]
    for revision, text in zip(revisions, expected, strict=True):
        part = await stores.revisions.text("earlier", document_id, (), revision, start=7000, limit=30)
        assert part.text == text[7000:7030]
        stored = await stores.revisions.stored("earlier", document_id, (), revision)
        assert stored is not None
        with closing(stored.segments):
            assert "".join(segment.text for segment in stored.segments) == text
    # An earlier release that runs beside this one stores no empty text in place of what it cannot read.
    async with acquire(pool) as connection:
        with pytest.raises(asyncpg.NumericValueOutOfRangeError):
            await connection.fetch(EARLIER_SEGMENTS, document_id, revisions[0])
        assert await connection.fetch(EARLIER_SEGMENTS, document_id, revisions[2])


async def test_what_no_revision_has_any_more_goes_from_rows_others_share(stores: Stores, pool: Pool) -> None:
    collection, chance = await keeping(stores, "shared_rows", revisions=3), random.Random(7)
    lines = [f"Größe {number}, in version 0 of this line.\n" for number in range(600)]
    stored: list[str] = []
    for version in range(1, 25):
        stored.insert(0, "".join(lines))
        document_id = await put(stores, collection, stored[0])
        assert await texts(stores, "shared_rows", document_id) == stored[:4]
        for number in chance.sample(range(len(lines)), 40):
            lines[number] = f"Größe {number}, in version {version} of this line.\n"
        at = chance.randrange(500)
        # Lines that move, and such as are there repeatedly.
        lines = (
            lines[at : at + 50]
            + ["The same line, over and over again.\n"] * 3
            + lines[:at]
            + lines[at + 50 :]
        )
    async with acquire(pool) as connection:
        rows = await connection.fetch("SELECT * FROM revision_texts WHERE document_id = $1", document_id)
        bases = "SELECT count(DISTINCT base_layout) FROM document_revisions WHERE document_id = $1"
        assert await connection.fetchval(bases, document_id)
    assert all(len(row["text"]) == row["character_count"] for row in rows)
    left = {line for row in rows for line in row["text"].splitlines()}
    assert left == {line for text in stored[1:4] for line in text.splitlines()}


async def test_a_revision_is_named_by_its_content(stores: Stores) -> None:
    collection = await keeping(stores, "named_revisions", everything=True)

    async def revision(text: str, **version: Any) -> str:
        document_id = await put(stores, collection, text, **version)
        found = await stores.documents.find("named_revisions", document_id)
        assert found is not None
        return found.revision

    first = await revision("one")
    assert await revision("one", ingestion_hash=b"other chunks") == first
    others = [
        await revision("two"),
        await revision("one", title="T"),
        await revision("one", metadata={"year": 2024}),
        await revision("one", allowed_principals=("user:ann",)),
    ]
    assert len({first, *others}) == 5
    assert await revision("one") == first


async def test_without_a_setting_only_what_answers_cite_is_kept(stores: Stores, pool: Pool) -> None:
    collection = await create(stores, "cited")
    document_id = await put(stores, collection, "one")
    [first] = await kept(stores, "cited", document_id)
    thread_id = await cite(pool, document_id, first.revision)
    for text in ("two", "three"):
        await put(stores, collection, text)
    assert await texts(stores, "cited", document_id) == ["three", "one"]
    [current, old] = await kept(stores, "cited", document_id)
    assert (current.is_current, old.is_current) == (True, False)
    assert old.revision == first.revision
    assert old.replace_time.ToDatetime() > old.store_time.ToDatetime()
    # The answer goes, and with it what it kept.
    async with acquire(pool) as connection:
        await connection.execute("DELETE FROM threads WHERE thread_id = $1::uuid", thread_id)
    await stores.revisions.prune()
    assert await texts(stores, "cited", document_id) == ["three"]
    async with acquire(pool) as connection:
        for table in KEPT_TEXT:
            count = f"SELECT count(*) FROM {table} WHERE document_id = $1::uuid"
            assert await connection.fetchval(count, document_id) == 0


async def test_the_last_so_many_are_kept(stores: Stores, pool: Pool) -> None:
    collection = await keeping(stores, "last", revisions=2)
    document_id = await put(stores, collection, "0")
    [first] = await kept(stores, "last", document_id)
    await cite(pool, document_id, first.revision)
    for text in "12345":
        await put(stores, collection, text)
    assert await texts(stores, "last", document_id) == ["5", "4", "3", "0"]
    # A text that is stored again becomes the revision in use, and is listed once.
    await put(stores, collection, "4")
    assert await texts(stores, "last", document_id) == ["4", "5", "3", "0"]


async def test_days_are_counted_from_the_replacement(stores: Stores, pool: Pool) -> None:
    collection = await keeping(stores, "days", days=30)
    for text in ("one", "two", "three"):
        document_id = await put(stores, collection, text)
    async with acquire(pool) as connection:
        await connection.execute(
            """
            UPDATE document_revisions SET replace_time = replace_time - interval '31 days' WHERE revision = $1
            """,
            (await kept(stores, "days", document_id))[2].revision,
        )
    await stores.revisions.prune()
    assert await texts(stores, "days", document_id) == ["three", "two"]


async def test_new_metadata_or_access_makes_a_revision(stores: Stores) -> None:
    collection = await keeping(stores, "metadata", everything=True)
    version = replace(a_version("a.md", "one"), metadata={"year": 2024})
    [(document_id, _)] = await stores.versions.store(collection, [a_new(version, "one")])
    for metadata in ({"year": 2025}, {"year": 2025}):
        await stores.versions.refresh(collection, replace(version, metadata=metadata), ())
    found = await kept(stores, "metadata", document_id)
    assert [dict(each.metadata) for each in found] == [{"year": 2025}, {"year": 2024}]
    assert await texts(stores, "metadata", document_id) == ["one", "one"]


async def test_whoever_was_let_in_later_sees_nothing_from_before(stores: Stores) -> None:
    collection = await keeping(stores, "letting_in", everything=True)
    await put(stores, collection, "for ann", allowed_principals=("user:ann",))
    await put(stores, collection, "for both", allowed_principals=("user:ann", "user:bob"))
    document_id = await put(stores, collection, "for bob", allowed_principals=("user:bob",))
    assert await texts(stores, "letting_in", document_id, "user:bob") == ["for bob", "for both"]
    # Nor does whoever may no longer read it.
    assert await texts(stores, "letting_in", document_id, "user:ann") == []
    [_, _, first] = [
        each.revision for each in await kept(stores, "letting_in", document_id, "user:bob", "user:ann")
    ]
    assert await stores.revisions.find("letting_in", document_id, ("user:bob",), first) is None
    assert (await stores.revisions.text("letting_in", document_id, ("user:bob",), first)).text == ""
    assert await stores.revisions.find("elsewhere", document_id, ("user:bob",), "") is None


async def test_what_was_handed_in_is_copied_some_parts_at_a_time(
    stores: Stores, few_originals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "PAYLOAD_PART", 3)
    monkeypatch.setattr(keeping_module, "ORIGINALS_AT_ONCE", FEW)
    collection = await keeping(stores, "handed_in", everything=True)
    collection.message.settings.keep_originals = True
    contents = ["one two three", "four five si"]
    versions_of = [replace(a_version("a.md", each), content_hash=each.encode()) for each in contents]
    document_id = ""
    for content, version in zip(contents, versions_of, strict=True):
        given = HandedIn(GivenDocument(content, uri="a.md"), version)
        await stores.jobs.enqueue(collection, [given], ("user:ann",), "")
        [item] = await lease(stores)
        new = replace(a_new(version, content), claim=item.claim, principals=("user:ann",))
        [(document_id, _)] = await stores.versions.store(collection, [new])

    async def original(content: str) -> str:
        document = document_pb2.Document(
            collection_id="handed_in", document_id=document_id, content_hash=content.encode().hex()
        )
        parts = [await stores.documents.original(document, (), part=part) for part in range(6)]
        return b"".join(part or b"" for part in parts).decode()

    assert [await original(each) for each in contents] == contents
    restored = replace(a_new(versions_of[0], contents[0]), is_restored=True, principals=("user:ann",))
    await stores.versions.store(collection, [restored])
    assert [await original(each) for each in contents] == contents
    found = await stores.documents.find("handed_in", document_id)
    assert found is not None
    assert found.has_original


async def test_nothing_is_left_of_a_deleted_document(stores: Stores, pool: Pool) -> None:
    collection = await keeping(stores, "deleted", everything=True)
    document_id = ""
    for text in ("one", "two"):
        document_id = await put(stores, collection, text)
    assert len(await kept(stores, "deleted", document_id)) == 2
    await stores.documents.delete(collection, document_id)
    async with acquire(pool) as connection:
        for table in ("document_revisions", *KEPT_TEXT, "revision_originals", "cited_revisions"):
            count = await connection.fetchval(
                f"SELECT count(*) FROM {table} WHERE document_id = $1::uuid", document_id
            )
            assert count == 0


@pytest.mark.parametrize(
    "step",
    [
        "keep_revisions",
        "_upsert",
        "_replace_contents",
        "copy_chunks",
        "_copy_texts",
        "settle_revisions",
        "finish_items",
    ],
)
async def test_a_process_that_is_killed_while_it_replaces_a_document_leaves_the_revision_in_use(
    stores: Stores, pool: Pool, database_url: str, step: str
) -> None:
    collection = await keeping(stores, "killed", everything=True)
    document_id = await put(stores, collection, "one")
    was = await kept(stores, "killed", document_id)

    assert await killed(database_url, step, "replace", "killed", "two") == -signal.SIGKILL

    assert await kept(stores, "killed", document_id) == was
    assert await texts(stores, "killed", document_id) == ["one"]
    assert await chunk_texts(pool, collection, document_id) == ["one"]
    await put(stores, collection, "two")
    assert await texts(stores, "killed", document_id) == ["two", "one"]


async def test_a_process_that_is_killed_once_it_has_replaced_a_document_leaves_the_new_revision(
    stores: Stores, pool: Pool, database_url: str
) -> None:
    collection = await keeping(stores, "killed", everything=True)
    document_id = await put(stores, collection, "one")
    assert await killed(database_url, COMMITTED, "replace", "killed", "two") == -signal.SIGKILL
    assert await texts(stores, "killed", document_id) == ["two", "one"]
    assert await chunk_texts(pool, collection, document_id) == ["two"]


async def chunk_texts(pool: Pool, collection: StoredCollection, document_id: str) -> list[str]:
    async with acquire(pool) as connection:
        rows = await connection.fetch(
            f"SELECT original_text FROM {chunk_table(collection.partition_id)} WHERE document_id = $1::uuid",
            document_id,
        )
    return [row["original_text"] for row in rows]


async def test_revisions_share_what_did_not_change(stores: Stores, pool: Pool) -> None:
    """A manual of 1 MB, of which each revision changes a hundredth of the lines, anywhere."""
    collection = await keeping(stores, "manual", everything=True)
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 10))) for _ in range(8000)]

    def line() -> str:
        return " ".join(dice.choices(words, k=dice.randint(12, 20))).capitalize() + ".\n"

    lines = [line() for _ in range(LINES)]
    stored = ["".join(lines)]
    document_id = await put(stores, collection, stored[0])
    for _ in range(REVISIONS):
        for at in dice.sample(range(LINES), LINES // 100):
            lines[at] = line()
        stored.append("".join(lines))
        await put(stores, collection, stored[-1], input_hash=str(len(stored)).encode())
    found = await kept(stores, "manual", document_id)
    assert len(found) == REVISIONS + 1
    for text, each in zip(reversed(stored), found, strict=True):
        part = await stores.revisions.text("manual", document_id, (), each.revision)
        assert (part.text, part.character_count) == (text, len(text))
    async with acquire(pool) as connection:
        size = 0
        for table in ("document_revisions", *KEPT_TEXT):
            sizes = (
                f"SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM {table} t WHERE document_id = $1::uuid"
            )
            size += await connection.fetchval(sizes, document_id)
    # The text itself, and 3 MB more for a hundred revisions.
    assert size <= len(stored[0]) + REVISIONS * 30_000


async def test_members_of_a_container_whose_access_changes_keep_what_they_were(stores: Stores) -> None:
    collection = await keeping(stores, "archives", everything=True)
    archive = a_version("a.zip", "first")
    [(member_id, _), _] = await stores.versions.store(
        collection,
        [a_new(replace(a_version("a.zip/b.md", "b"), container_uri="a.zip"), "b"), a_new(archive, "listing")],
    )
    await stores.jobs.enqueue(collection, [a_hand_in("a.zip")], ("user:ann",), "")
    [item] = await lease(stores)
    restricted = replace(archive, allowed_principals=("user:ann",), ingestion_hash=b"second")
    members = [a_member("a.zip/b.md", "b")]
    new = replace(a_new(restricted, "listing"), claim=item.claim, principals=("user:ann",), members=members)
    await stores.versions.store(collection, [new])
    found = await kept(stores, "archives", member_id, "user:ann")
    assert [list(each.allowed_principals) for each in found] == [["user:ann"], []]
    assert await kept(stores, "archives", member_id, "user:bob") == []
