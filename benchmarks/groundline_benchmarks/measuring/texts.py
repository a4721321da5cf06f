"""Texts with word frequencies like those of a language."""

import itertools
from collections.abc import Iterator
from itertools import batched
from typing import Final

import numpy as np

TEXT_WORDS: Final = 150
SENTENCE_WORDS: Final = 15
VOCABULARY: Final = 20_000
DIMENSIONS: Final = 384
"""Dimensions of the texts' vectors, as MiniLM's."""


def words() -> list[str]:
    """Return words by falling frequency; letters only, and none that stemming would make equal to another."""
    consonants, vowels = "bdfgklmnprtv", "aou"
    syllables = ["".join(pair) for pair in itertools.product(consonants, vowels)]
    return ["".join(parts) for parts in itertools.islice(itertools.product(syllables, repeat=3), VOCABULARY)]


def texts(generator: np.random.Generator, count: int) -> Iterator[str]:
    """Yield texts of TEXT_WORDS words that follow Zipf's law, in sentences of SENTENCE_WORDS."""
    vocabulary = np.array(words())
    chances = 1 / np.arange(1, VOCABULARY + 1)
    chances /= chances.sum()
    for _ in range(count):
        drawn = generator.choice(vocabulary, TEXT_WORDS, p=chances)
        yield " ".join(" ".join(some).capitalize() + "." for some in batched(drawn, SENTENCE_WORDS))
