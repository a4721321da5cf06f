"""Texts whose words are as frequent as those of a language."""

import itertools
from collections.abc import Iterator
from itertools import batched

import numpy as np

__all__ = ["DIMENSIONS", "TEXT_WORDS", "VOCABULARY", "texts", "words"]

TEXT_WORDS = 150
SENTENCE_WORDS = 15
VOCABULARY = 20_000
DIMENSIONS = 384
"""Of the texts' vectors, as MiniLM's."""


def words() -> list[str]:
    """Words by falling frequency; letters only, and none that stemming would make another's."""
    consonants, vowels = "bdfgklmnprtv", "aou"
    syllables = ["".join(pair) for pair in itertools.product(consonants, vowels)]
    return ["".join(parts) for parts in itertools.islice(itertools.product(syllables, repeat=3), VOCABULARY)]


def texts(generator: np.random.Generator, count: int) -> Iterator[str]:
    """Texts of TEXT_WORDS words that follow Zipf's law, in sentences of SENTENCE_WORDS."""
    vocabulary = np.array(words())
    chances = 1 / np.arange(1, VOCABULARY + 1)
    chances /= chances.sum()
    for _ in range(count):
        drawn = generator.choice(vocabulary, TEXT_WORDS, p=chances)
        yield " ".join(" ".join(some).capitalize() + "." for some in batched(drawn, SENTENCE_WORDS))
