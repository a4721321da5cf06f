"""Pure functions of the ingestor: access, ids, settings, contexts, hashes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from groundline_ingestor.domain import (
    Chunking,
    Collection,
    DocumentInput,
    Heading,
    Partition,
    SettingChange,
    collection_id_from,
    content_hash,
    heading_trails,
    ingestion_hash,
    input_hash,
    is_readable,
    is_writable,
    last_part,
    settings_violations,
    structural_context,
    with_changes,
)

NOW = datetime(2024, 5, 1, tzinfo=UTC)
PARTITION = Partition(1, "model", 8, "english")


def collection(readers: tuple[str, ...], writers: tuple[str, ...]) -> Collection:
    return Collection("c", "c", {}, readers, writers, PARTITION, NOW, NOW)


@pytest.mark.parametrize(
    ("readers", "writers", "principals", "reads", "writes"),
    [
        ((), (), (), True, True),
        (("ann",), (), (), False, False),
        (("ann",), (), ("ann",), True, True),
        (("ann",), ("bob",), ("ann",), True, False),
        (("ann",), ("bob",), ("bob",), True, True),
        (("ann",), ("bob",), ("eve",), False, False),
        ((), ("bob",), ("eve",), True, False),
        ((), ("bob",), ("eve", "bob"), True, True),
    ],
)
def test_readers_read_and_writers_do_both(
    readers: tuple[str, ...], writers: tuple[str, ...], principals: tuple[str, ...], reads: bool, writes: bool
) -> None:
    assert is_readable(collection(readers, writers), principals) is reads
    assert is_writable(collection(readers, writers), principals) is writes


@pytest.mark.parametrize(
    ("name", "collection_id"),
    [
        ("東京", ""),
        (" -_- ", ""),
        ("Café  Menu_2024!", "cafe-menu_2024"),
        ("x" * 80, "x" * 63),
        ("a" * 62 + " b", "a" * 62),
    ],
)
def test_an_id_is_made_of_what_a_name_has_of_letters_and_digits(name: str, collection_id: str) -> None:
    assert collection_id_from(name) == collection_id


@pytest.mark.parametrize(
    ("chosen", "size", "overlap"),
    [
        ({}, 2000, 200),
        ({"chunkSize": 100}, 100, 10),
        ({"chunkSize": 401}, 401, 200),
        ({"chunkOverlap": 0}, 2000, 0),
    ],
)
def test_defaults_of_chunking_fit_each_other(chosen: dict[str, Any], size: int, overlap: int) -> None:
    chunking = Chunking.of({"chunking": chosen})
    assert (chunking.chunk_size, chunking.chunk_overlap) == (size, overlap)
    assert not settings_violations({"chunking": chosen})


def test_an_overlap_of_half_a_chunk_is_too_much() -> None:
    [violation] = settings_violations({"chunking": {"chunkSize": 100, "chunkOverlap": 50}})
    assert violation.field == "settings.chunking.chunk_overlap"


def test_changes_set_and_unset_without_touching_the_original() -> None:
    settings = {"chunking": {"chunkSize": 100}, "rerank": {"topK": 5, "rrfK": 10}}
    changed = with_changes(
        settings,
        [
            SettingChange(("chunking", "chunkSize"), None),
            SettingChange(("rerank", "topK"), 7),
            SettingChange(("retrieval", "mode"), "RETRIEVAL_MODE_KEYWORD"),
        ],
    )
    assert changed == {"rerank": {"topK": 7, "rrfK": 10}, "retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}}
    assert settings["chunking"] == {"chunkSize": 100}


def test_a_trail_holds_the_headings_that_enclose_a_place() -> None:
    headings = [
        Heading(1, "A", 0),
        Heading(2, "B", 10),
        Heading(3, "C", 20),
        Heading(2, "D", 30),
        Heading(1, "E", 40),
    ]
    trails = dict(zip(range(0, 51, 5), heading_trails(headings, range(0, 51, 5)), strict=True))
    assert trails[0] == ()
    assert trails[5] == trails[10] == ("A",)
    assert trails[15] == ("A", "B")
    assert trails[25] == ("A", "B", "C")
    assert trails[30] == ("A",), "the heading that begins here ends B and C, and is in the chunk itself"
    assert trails[35] == ("A", "D")
    assert trails[40] == ()
    assert trails[45] == ("E",)


@pytest.mark.parametrize(
    ("title", "uri", "trail", "context"),
    [
        ("Guide", "docs/guide.md", ("Set-up", "Linux"), "Guide\ndocs/guide.md\nSet-up > Linux"),
        ("Guide", "docs/guide.md", ("Guide", "Linux"), "docs/guide.md\nGuide > Linux"),
        ("guide.md", "docs/guide.md", (), "docs/guide.md"),
        ("Notes", "", (), "Notes"),
        ("", "", (), ""),
    ],
)
def test_a_structural_context_says_nothing_twice(
    title: str, uri: str, trail: tuple[str, ...], context: str
) -> None:
    assert structural_context(title, uri, trail) == context


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("a", "a"),
        ("a/b.md", "b.md"),
        ("a\\b.md", "b.md"),
        ("https://x.org/a/?q=1#f", "a"),
        ("what?.md", "what?.md"),
        ("/", "/"),
    ],
)
def test_the_last_part_of_a_uri_names_it(uri: str, part: str) -> None:
    assert last_part(uri) == part


def test_the_ingestion_hash_follows_what_decides_the_chunks_and_nothing_else() -> None:
    given = DocumentInput("text", uri="a.md")

    def hashed(
        given: DocumentInput, settings: dict[str, Any] | None = None, partition: Partition = PARTITION
    ) -> bytes:
        return ingestion_hash(input_hash(given, content_hash(given.content)), settings or {}, partition)

    same = [
        replace(given, metadata={"a": 1}),
        replace(given, allowed_principals=("user:ann",)),
    ]
    other = [
        hashed(replace(given, content="Text")),
        hashed(replace(given, content=b"text")),
        hashed(replace(given, title="T")),
        hashed(replace(given, mime_type="text/plain")),
        hashed(given, {"chunking": {"chunkSize": 100}}),
        hashed(given, {"contextualization": {"mode": "CONTEXTUALIZATION_MODE_NONE"}}),
        hashed(given, None, replace(PARTITION, embedding_model="other")),
        hashed(given, None, replace(PARTITION, language="german")),
    ]
    assert {hashed(one) for one in same} == {hashed(given)}
    assert len({hashed(given), *other}) == len(other) + 1
    assert hashed(given, {"chunking": {"chunkSize": 2000}}) == hashed(given), "a default that is spelt out"
