"""Pure functions of the ingestor: access, ids, settings, contexts, hashes."""

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from groundline.v1 import collection_pb2
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_extraction.documents import GivenDocument
from groundline_extraction.texts import Heading, last_part
from groundline_indexing.collections import effective_chunking
from groundline_indexing.hashes import content_hash, ingestion_hash, input_hash
from groundline_indexing.preparation import member_uri
from groundline_indexing.texts import heading_trails, structural_context
from groundline_ingestor.domain.collections import (
    collection_id_from,
    complete_access,
    is_administrable,
    is_readable,
    is_writable,
)
from groundline_ingestor.domain.settings import changed, effective, wrong_paths
from groundline_tests.ingestor.messages import a_collection, settings_of
from groundline_validation import violations_of


@pytest.mark.parametrize(
    ("principals", "reads", "writes", "administers"),
    [
        ((), False, False, False),
        (("eve",), False, False, False),
        (("*",), False, False, False),
        (("reader",), True, False, False),
        (("writer",), True, True, False),
        (("admin",), True, True, True),
        (("eve", "writer"), True, True, False),
    ],
)
def test_who_may_do_more_may_do_less(
    principals: tuple[str, ...], reads: bool, writes: bool, administers: bool
) -> None:
    collection = collection_pb2.Collection()
    collection.settings.access.CopyFrom(
        collection_pb2.AccessSettings(readers=["reader"], writers=["writer"], admins=["admin"])
    )
    assert is_readable(collection, principals) is reads
    assert is_writable(collection, principals) is writes
    assert is_administrable(collection, principals) is administers


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        (([], [], []), (["ann"], ["ann"], ["ann"])),
        ((["bob", "bob"], [], []), (["bob"], ["ann"], ["ann"])),
        ((["bob", "*"], [], []), (["*"], ["ann"], ["ann"])),
    ],
)
def test_access_not_said_is_the_owners(given: tuple[list[str], ...], complete: tuple[list[str], ...]) -> None:
    access = complete_access(
        collection_pb2.AccessSettings(readers=given[0], writers=given[1], admins=given[2]), "ann"
    )
    assert (list(access.readers), list(access.writers), list(access.admins)) == complete


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
    settings = settings_of({"chunking": chosen})
    chunking = effective_chunking(settings)
    assert (chunking.chunk_size, chunking.chunk_overlap) == (size, overlap)
    assert not violations_of(effective(settings))


def updated(current: collection_pb2.Collection, **request: Any) -> collection_pb2.Collection:
    return changed(current, json_format.ParseDict(request, pb.UpdateCollectionRequest()))


def test_without_a_mask_every_single_setting_that_is_set_changes() -> None:
    before = a_collection(
        chunking={"chunkSize": 100, "chunkOverlap": 5},
        rerank={"topK": 5, "rrfK": 10, "typePriorities": {"file": 1}},
        readers=["user:ann"],
    )
    after = updated(
        before,
        settings={
            "rerank": {"topK": 7, "weights": {"type": 0.5}, "typePriorities": {"web": 1}},
            "retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"},
            "access": {"writers": ["user:bob"], "admins": ["user:bob"]},
        },
    )
    expected = a_collection(
        chunking={"chunkSize": 100, "chunkOverlap": 5},
        rerank={"topK": 7, "rrfK": 10, "weights": {"type": 0.5}, "typePriorities": {"web": 1}},
        retrieval={"mode": "RETRIEVAL_MODE_KEYWORD"},
        readers=["user:ann"],
        writers=["user:bob"],
    )
    assert after == expected
    assert before.settings.rerank.top_k == 5


def test_with_a_mask_its_paths_change_whether_set_or_not() -> None:
    before = a_collection(
        chunking={"chunkSize": 100}, rerank={"rrfK": 10}, generation={"model": "m"}, writers=["user:ann"]
    )
    after = updated(
        before,
        name="ignored",
        settings={"rerank": {"topK": 3}, "generation": {"model": "ignored"}},
        updateMask="settings.rerank.topK,settings.chunking,settings.access.writers,settings.rerank.rrfK",
    )
    expected = a_collection(rerank={"topK": 3}, generation={"model": "m"}, writers=["user:ann"])
    expected.settings.access.ClearField("writers")
    assert after == expected


@pytest.mark.parametrize("keeps", [True, False])
def test_a_setting_that_is_in_no_group_stays_and_changes(keeps: bool) -> None:
    before = a_collection()
    before.settings.keep_originals = keeps
    assert updated(before, settings={"rerank": {"topK": 7}}).settings.keep_originals == keeps
    after = updated(before, settings={"keepOriginals": not keeps})
    assert after.settings.HasField("keep_originals")
    assert after.settings.keep_originals != keeps


def test_model_and_language_stay_unless_another_is_named() -> None:
    before = a_collection(lexical={"language": "german"})
    before.settings.ClearField("access")
    assert updated(before, updateMask="settings").settings == before.settings
    assert (
        updated(before, settings={"lexical": {"language": "klingon"}}).settings.lexical.language == "simple"
    )


@pytest.mark.parametrize(
    "path", ["", "settings.", "collection_id", "settings.nothing", "name.x", "document_count"]
)
def test_a_mask_path_that_cannot_be_changed_is_wrong(path: str) -> None:
    assert wrong_paths(FieldMask(paths=["name", path, "settings.rerank.top_k"])) == [path]


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
def test_structural_context_says_it_once(title: str, uri: str, trail: tuple[str, ...], context: str) -> None:
    assert structural_context(title, uri, trail) == context


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("a", "a"),
        ("a/b.md", "b.md"),
        ("a\\b.md", "b.md"),
        ("https://x.org/a/?q=1#f", "a"),
        ("what?.md", "what?.md"),
        ("https://x.org/a.zip?q=1#f!/docs/what?.md", "what?.md"),
        ("/", "/"),
    ],
)
def test_the_last_part_of_a_uri_names_it(uri: str, part: str) -> None:
    assert last_part(uri) == part


def test_a_file_within_a_document_is_called_by_its_path_there() -> None:
    assert member_uri("s3://b/a.zip", "") == "s3://b/a.zip"
    assert member_uri("s3://b/a.zip", "in.eml!/b.txt") == "s3://b/a.zip!/in.eml!/b.txt"
    for name in ("x" * 2000, "ß" * 1250):
        long = member_uri("a.zip", name)
        assert long.startswith("sha256:")
        assert long == member_uri("a.zip", name) != member_uri("b.zip", name)


def test_the_ingestion_hash_follows_what_decides_the_chunks_and_nothing_else() -> None:
    given = GivenDocument("text", uri="a.md")

    def hashed(given: GivenDocument, settings: dict[str, Any] | None = None, model: str = "m") -> bytes:
        collection = a_collection(model=model, **(settings or {}))
        hashed = replace(given, content_hash=content_hash(given.content))
        return ingestion_hash(input_hash(hashed, collection.settings.pictures), collection.settings)

    same = [replace(given, metadata={"a": 1}), replace(given, allowed_principals=("user:ann",))]
    other = [
        hashed(replace(given, content="Text")),
        hashed(replace(given, content=b"text")),
        hashed(replace(given, title="T")),
        hashed(replace(given, mime_type="text/plain")),
        hashed(given, {"chunking": {"chunkSize": 100}}),
        hashed(given, {"contextualization": {"mode": "CONTEXTUALIZATION_MODE_NONE"}}),
        hashed(given, model="other"),
        hashed(given, {"lexical": {"language": "german"}}),
    ]
    assert {hashed(one) for one in same} == {hashed(given)}
    assert len({hashed(given), *other}) == len(other) + 1
    assert hashed(given, {"chunking": {"chunkSize": 2000}}) == hashed(given), "a default that is spelt out"
