"""Chunks as Weaviate holds them, and filters as it gets them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from groundline_filters import parse
from groundline_weaviate import Extent, IndexedChunk, Space, condition_of
from groundline_weaviate.chunks import EVERYONE, holding, key_of, listing, object_id, principal
from groundline_weaviate.wire_pb2 import Filters

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def chunk(**changes: Any) -> IndexedChunk:
    fields: dict[str, Any] = {
        "partition_id": 3,
        "chunk_id": 17,
        "collection_id": "handbook",
        "document_id": UUID(int=5),
        "lexical_text": "travel cost",
        "language": "english",
        "vector": np.array([0.6, 0.8], dtype=np.float32),
        "principals": (),
        "source_type": "file",
        "update_time": NOON,
        "metadata": {"team": "hr", "year": 2026, "tags": ["a", "b"], "owner": {"name": None}},
    }
    return IndexedChunk(**(fields | changes))


def selected(filtered: dict[str, Any]) -> Filters | None:
    """Return the filter as the server gets it, beside scope and readers; None without one."""
    tree = parse(filtered)
    parts = condition_of(Extent([3]), [], tree).filters
    return parts[2] if len(parts) == 3 else None


class TestObjectIds:
    @pytest.mark.parametrize(("partition_id", "chunk_id"), [(-1, 1), (2**48, 1), (1, -1), (1, 2**62)])
    def test_a_key_that_no_row_has_is_refused(self, partition_id: int, chunk_id: int) -> None:
        with pytest.raises(ValueError, match="no object can have the key"):
            object_id(partition_id, chunk_id)

    def test_an_id_tells_its_key(self) -> None:
        for key in ((0, 0), (7, 12), (2**48 - 1, 2**62 - 1)):
            assert key_of(object_id(*key).bytes) == key

    def test_ids_are_valid_and_in_the_order_of_keys(self) -> None:
        ids = [object_id(*key) for key in ((1, 2**61), (2, 1), (2, 300))]
        assert ids == sorted(ids)
        assert {each.version for each in ids} == {8}


class TestClassNames:
    def test_models_whose_names_read_alike_have_classes_of_their_own(self) -> None:
        names = {Space(model, 384).class_name("Groundline") for model in ("org/a-b", "org/a_b", "other/a-b")}
        assert len(names) == 3
        assert all(name.startswith("Groundline_a_b_") and name.endswith("_384") for name in names)

    def test_a_dimension_has_a_class_of_its_own(self) -> None:
        assert Space("m", 256).class_name("Groundline") != Space("m", 512).class_name("Groundline")

    def test_quantized_vectors_have_a_class_of_their_own(self) -> None:
        quantized = Space("m", 256, is_quantized=True)
        assert quantized.class_name("Groundline") != Space("m", 256).class_name("Groundline")


class TestContentHash:
    @pytest.mark.parametrize(
        "change",
        [
            {"lexical_text": "travel"},
            {"vector": np.array([0.8, 0.6], dtype=np.float32)},
            {"principals": ("ann",)},
            {"metadata": {"team": "it"}},
            {"update_time": NOON + timedelta(microseconds=1)},
            {"collection_id": "other"},
            {"partition_id": 4},
        ],
    )
    def test_it_changes_with_all_that_is_searched(self, change: dict[str, Any]) -> None:
        assert chunk(**change).content_hash != chunk().content_hash

    def test_it_does_not_depend_on_order(self) -> None:
        one = chunk(principals=("ann", "bob"), metadata={"a": 1, "b": 2})
        other = chunk(principals=("bob", "ann"), metadata={"b": 2.0, "a": 1})
        assert one.content_hash == other.content_hash


class TestReaders:
    def test_without_principals_everyone_reads(self) -> None:
        assert chunk().readers == [EVERYONE]

    def test_a_principal_that_is_called_like_everyone_is_another(self) -> None:
        assert chunk(principals=(EVERYONE,)).readers == [principal(EVERYONE)] != [EVERYONE]

    def test_no_name_of_a_principal_is_stored(self) -> None:
        assert "ann" not in "".join(chunk(principals=("ann",)).readers)


class TestConditions:
    def test_scope_and_readers_are_always_asked_for(self) -> None:
        condition = condition_of(Extent([3], [4], ["handbook"]), ["ann"], None)
        scope, readers = condition.filters
        assert scope.operator == Filters.OPERATOR_OR
        assert list(readers.value_text_array.values) == [EVERYONE, principal("ann")]

    @pytest.mark.parametrize(
        "filtered",
        [
            {"year": {"$gt": 2020}},
            {"$uri": {"$prefix": "https://"}},
            {"team": {"$prefix": "h"}},
            {"team": {"$not": {"$regex": "^h"}}},
            {"$or": [{"team": "hr"}, {"year": {"$gt": 2020}}]},
            # Less than the whole is all that could be said of the inner part: without it, more is proposed.
            {"$not": {"$and": [{"team": "hr"}, {"year": {"$gt": 2020}}]}},
        ],
    )
    def test_what_cannot_be_said_is_left_out(self, filtered: dict[str, Any]) -> None:
        assert selected(filtered) is None

    def test_of_a_conjunction_the_rest_is_said(self) -> None:
        found = selected({"$and": [{"team": "hr"}, {"year": {"$gt": 2020}}]})
        assert found is not None
        assert list(found.value_text_array.values) == [holding(["team"], "hr"), listing(["team"], "hr")]

    def test_a_value_is_looked_for_as_it_is_stored(self) -> None:
        stored = chunk().metadata_tokens
        for filtered in (
            {"team": "hr"},
            {"year": 2026.0},
            {"tags": {"$contains": "b"}},
            {"tags": "b"},
            {"owner.name": None},
        ):
            found = selected(filtered)
            assert found is not None
            assert set(found.value_text_array.values) & set(stored), filtered

    def test_a_value_of_another_type_is_another(self) -> None:
        found = selected({"year": "2026"})
        assert found is not None
        assert not set(found.value_text_array.values) & set(chunk().metadata_tokens)

    def test_a_negation_is_said_where_its_part_is(self) -> None:
        for filtered in ({"team": {"$ne": "hr"}}, {"team": {"$not": {"$in": ["hr"]}}}):
            found = selected(filtered)
            assert found is not None
            assert found.operator == Filters.OPERATOR_NOT

    def test_numbers_that_may_share_a_token_are_not_excluded(self) -> None:
        assert selected({"year": {"$ne": 2**60 + 1}}) is None
