"""A service runs a model that its database is searched by, or does not start."""

import pytest
from groundline_embedding import ModelError, require_agreement

OLD, NEW = ("acme/old", 384), ("acme/new", 1024)


def test_a_model_that_no_collection_is_of_is_refused_by_both_names() -> None:
    with pytest.raises(
        ModelError, match=r"acme/new \(1024 dimensions\).*acme/old \(384 dimensions, 3\)"
    ) as caught:
        require_agreement([NEW], {OLD: 3})
    assert "other_embedding" in str(caught.value)


def test_the_same_name_with_vectors_of_another_length_is_another_model() -> None:
    with pytest.raises(ModelError):
        require_agreement([("acme/old", 512)], {OLD: 1})


@pytest.mark.parametrize("stored", [{}, {NEW: 1}, {OLD: 9, NEW: 1}])
def test_an_empty_database_and_a_collection_of_the_model_do(stored: dict[tuple[str, int], int]) -> None:
    require_agreement([NEW], stored)


def test_of_two_models_that_run_one_is_enough() -> None:
    require_agreement([NEW, OLD], {OLD: 3})
