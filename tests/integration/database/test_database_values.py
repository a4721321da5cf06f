"""Values and conditions: what is written comes back, and who may read what."""

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from groundline_database import (
    DatabaseSettings,
    Pool,
    is_readable_collection,
    is_readable_document,
    open_pool,
    register_vectors,
)
from pgvector import HalfVector

type MakeSettings = Callable[..., DatabaseSettings]


@pytest.fixture
async def pool(settings: MakeSettings) -> AsyncIterator[Pool]:
    async with open_pool(settings()) as pool:
        yield pool


@pytest.mark.parametrize("value", [None, {}, [], "ü\u2028", 0, 1.5, True, {"a": [1, {"b": None}]}])
async def test_jsonb_is_read_and_written_as_values(pool: Pool, value: Any) -> None:
    if value is not None:
        assert await pool.fetchval("SELECT $1::jsonb", value) == value
    assert await pool.fetchval("SELECT $1::jsonb -> 'x'", {"x": value}) == value


@pytest.mark.parametrize("kind", [str, uuid.UUID])
async def test_a_uuid_is_read_as_text_and_written_as_either(pool: Pool, kind: Callable[[str], Any]) -> None:
    text = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    assert await pool.fetchval("SELECT $1::uuid", kind(text)) == text
    assert await pool.fetchval("SELECT $1::uuid[]", [kind(text)]) == [text]


async def test_copy_takes_the_same_values(pool: Pool) -> None:
    row = (str(uuid.uuid4()), {"a": 1})
    await pool.execute("CREATE TABLE copied (id uuid, value jsonb)")
    await pool.copy_records_to_table("copied", records=[row])
    assert tuple(await pool.fetchrow("SELECT * FROM copied") or ()) == row


async def test_vectors_are_halfvec_once_the_extension_is_there(pool: Pool, settings: MakeSettings) -> None:
    async with open_pool(settings(), init=register_vectors) as before:
        assert await before.fetchval("SELECT 1") == 1
    await pool.execute("CREATE EXTENSION IF NOT EXISTS vector")
    async with open_pool(settings(), init=register_vectors) as after:
        found = await after.fetchval("SELECT $1::halfvec", HalfVector([1, 2.5]))
    assert found == HalfVector([1, 2.5])


@pytest.mark.parametrize(
    ("readers", "writers", "admins", "principals", "expected"),
    [
        (["ann"], [], [], [], False),
        (["ann"], [], [], ["bob"], False),
        (["ann"], ["bob"], ["dan"], ["cid"], False),
        (["ann"], [], [], ["bob", "ann"], True),
        (["ann"], ["bob"], [], ["bob"], True),
        (["ann"], ["bob"], ["dan"], ["dan"], True),
        ([], [], [], [], True),
        ([], ["bob"], ["dan"], ["ann"], True),
    ],
)
async def test_a_collection_is_read_by_readers_writers_and_admins_or_by_all(
    pool: Pool,
    readers: list[str],
    writers: list[str],
    admins: list[str],
    principals: list[str],
    expected: bool,
) -> None:
    collections = "(SELECT $2::text[], $3::text[], $4::text[]) c (readers, writers, admins)"
    for table in ("", "c"):
        found = await pool.fetchval(
            f"SELECT {is_readable_collection('$1', table)} FROM {collections}",
            principals,
            readers,
            writers,
            admins,
        )
        assert found is expected


@pytest.mark.parametrize(
    ("allowed", "principals", "expected"),
    [(["ann"], [], False), (["ann"], ["bob"], False), (["ann"], ["bob", "ann"], True), ([], [], True)],
)
async def test_a_document_is_read_by_whom_it_allows_or_by_all(
    pool: Pool, allowed: list[str], principals: list[str], expected: bool
) -> None:
    for table in ("", "d"):
        found = await pool.fetchval(
            f"SELECT {is_readable_document('$1', table)} FROM (SELECT $2::text[]) d (allowed_principals)",
            principals,
            allowed,
        )
        assert found is expected
