"""Signatures: equal texts, similar texts, different texts, and what must never change."""

import random

import numpy as np
import pytest
from groundline_signatures import SIGNATURE_BYTES, alike_rows, as_matrix, pairwise_similarity, signature

WORDS = [f"word{number}" for number in range(3000)]


def text_of(seed: int, words: int = 150) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def with_changes(text: str, count: int, seed: int = 1) -> str:
    """Return the text with a number of words replaced by others."""
    picker, words = random.Random(seed), text.split()
    for place in picker.sample(range(len(words)), count):
        words[place] = f"other{picker.randrange(10**9)}"
    return " ".join(words)


def jaccard(one: str, other: str) -> float:
    first, second = (
        {tuple(words[start : start + 3]) for start in range(len(words) - 2)}
        for words in (one.split(), other.split())
    )
    return len(first & second) / len(first | second)


def similarity(one: str, other: str) -> float:
    return float(pairwise_similarity(as_matrix([signature(one), signature(other)]))[0, 1])


@pytest.mark.parametrize("text", ["", " ", "one", "one two", "one two three", "…", "\ud800", text_of(1)])
def test_every_text_has_a_signature_of_the_stated_length(text: str) -> None:
    assert len(signature(text)) == SIGNATURE_BYTES
    assert similarity(text, text) == 1.0


def test_case_and_white_space_make_no_difference() -> None:
    assert signature("The  Valve\nopens") == signature("the valve OPENS ")


def test_only_equal_texts_are_of_similarity_one() -> None:
    text = text_of(1, words=3000)

    assert 0.98 < similarity(text, with_changes(text, 1)) < 1.0


def test_texts_that_differ_in_punctuation_only_are_nearly_but_not_quite_equal() -> None:
    assert 0.99 < similarity("one two three four", "one, two, three, four.") < 1.0


def test_unrelated_texts_are_of_similarity_zero() -> None:
    assert similarity(text_of(1), text_of(2)) == pytest.approx(0, abs=0.05)


def test_the_estimate_is_close_to_the_jaccard_index_of_the_shingles() -> None:
    pairs = [(text_of(seed), with_changes(text_of(seed), seed % 20, seed)) for seed in range(100)]

    errors = np.array([similarity(one, other) - jaccard(one, other) for one, other in pairs])

    assert abs(errors.mean()) < 0.01
    assert errors.std() < 0.045  # sqrt(J (1 - J) / 128) is at most .0442


def test_short_texts_that_differ_are_far_apart() -> None:
    signatures = as_matrix([signature(f"text {number}") for number in range(500)])

    similarities = pairwise_similarity(signatures)

    assert (similarities - np.eye(500)).max() < 0.15


def test_all_pairs_are_compared_at_once() -> None:
    texts = [text_of(seed) for seed in range(70)] + [text_of(3)]

    similarities = pairwise_similarity(as_matrix([signature(text) for text in texts]))

    assert similarities.shape == (71, 71)
    assert similarities[3, 70] == similarities[70, 3] == 1.0
    assert np.array_equal(similarities, similarities.T)


@pytest.mark.parametrize("threshold", [0.5, 0.88, 0.9, 0.95, 1.0])
def test_no_row_that_is_alike_to_another_is_missed(threshold: float) -> None:
    picker = np.random.default_rng(7)
    rows = picker.integers(0, 256, (60, SIGNATURE_BYTES), np.uint8)
    for place in range(40):  # copies of the first, each with more values changed than the one before
        changed = picker.choice(np.arange(8, SIGNATURE_BYTES), place, replace=False)
        rows[place] = rows[0]
        rows[place, changed] ^= 1
        rows[place, :8] = picker.integers(0, 256, 8) if place > 1 else rows[0, :8]

    similarities = pairwise_similarity(rows)
    np.fill_diagonal(similarities, 0)
    alike = np.flatnonzero((similarities >= np.float32(threshold)).any(axis=1))

    assert len(alike) >= 2
    assert set(alike.tolist()) <= set(alike_rows(rows, threshold).tolist())


def test_rows_that_have_nothing_in_common_are_not_compared() -> None:
    assert not len(alike_rows(as_matrix([signature(text_of(seed)) for seed in range(50)]), 0.9))


def test_signatures_that_are_stored_stay_comparable() -> None:
    """Whoever changes how signatures are made must make chunks be ingested again (PIPELINE_VERSION)."""
    expected = "cf219f090f0ea0306eb46e2a4d73c889a17f858c0d9da7b33c64697423ce78d7"
    assert signature("The relief valve opens at 41 degrees.").hex()[:64] == expected
