"""Parts of an answer that passages lack, told by the words of the question and theirs.

A question over several documents names the subject of one, which says what the next is to be looked up by:
"Who leads the team that builds the DN-6?" The passage that shares most with the question gives the name (the
team's), and the question's words that it lacks ("leads") are what to search for beside it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum, log
from typing import Final, NamedTuple

from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.reading import read
from groundline_generator.domain.signs import mentions

_READ: Final = 12
"""Number of the best passages that are read."""

_COVERED: Final = 0.85
"""Share of the question's terms that suffices; rare ones among the passages weigh more."""

_NEAR: Final = 2
"""Number of sentences in which a passage's names are looked for: those that share most with the question."""


class Gaps(NamedTuple):
    """Words and queries for the rest of an answer; both are empty if the passages suffice."""

    words: Sequence[str]
    """The question's words that its best passage lacks."""
    queries: Sequence[str]
    """Queries that may find them, the most promising first."""


def gaps(
    query: str, passages: Sequence[pb.NumberedPassage], limit: int, searched: Iterable[str] = ()
) -> Gaps:
    """Return what the passages lack of the question's words, with at most `limit` queries.

    Its parts are among the queries that were searched for: words in the best passage for one of them are not
    missing.
    """
    language = guess_language(query)
    words = _words(query, language)
    found = [_Found.of(each, language) for each in passages[:_READ]]
    if not words or not found:
        return Gaps((), ())
    weights = _weights(words, found)
    best = _best(weights, found)
    parts = (frozenset(content_terms(part, language)) & weights.keys() for part in searched)
    held = best.terms.union(*(_best({term: weights[term] for term in part}, found).terms for part in parts))
    lacking = {word: terms for word, terms in words.items() if terms.isdisjoint(held)}
    covered = fsum(weights[term] for term in weights.keys() & held)
    if not lacking or covered >= _COVERED * fsum(weights.values()):
        return Gaps((), ())
    missing = " ".join(lacking)
    open_terms = frozenset[str]().union(*lacking.values())
    bridges = list(_bridges(best, frozenset(weights), language))
    others = [each for each in found if each is not best]
    if any(each.tells(name, open_terms, language) for name in bridges for each in others):
        return Gaps((), ())
    queries = [f"{missing} {name}" for name in bridges]
    if len(lacking) > 1:
        queries.append(missing)
    return Gaps(tuple(lacking), queries[:limit])


class _Found(NamedTuple):
    passage: pb.NumberedPassage
    terms: frozenset[str]
    """Terms of its text and title, in the question's language."""

    @classmethod
    def of(cls, passage: pb.NumberedPassage, language: str | None) -> "_Found":
        about = content_terms(f"{passage.title} {passage.context}", language)
        return cls(passage, read(passage).terms(language) | frozenset(about))

    def tells(self, name: str, asked: frozenset[str], language: str | None) -> bool:
        """Tell whether it has a name, and at least half of what is asked about it."""
        return 2 * len(asked & self.terms) >= len(asked) and self.terms.issuperset(
            content_terms(name, language)
        )


def _words(query: str, language: str | None) -> dict[str, frozenset[str]]:
    """Return the question's words with their terms, without stop words."""
    parts = {word.strip(".,;:!?()\"'„“”"): frozenset(content_terms(word, language)) for word in query.split()}
    return {word: terms for word, terms in parts.items() if terms}


def _weights(words: dict[str, frozenset[str]], found: Sequence[_Found]) -> dict[str, float]:
    """Return how much each of the question's terms tells, by the number of passages that have it."""
    counts = Counter(term for each in found for term in each.terms)
    return {term: log(1 + len(found) / (1 + counts[term])) for terms in words.values() for term in terms}


def _best(weights: Mapping[str, float], found: Sequence[_Found]) -> _Found:
    return max(found, key=lambda each: fsum(weights[term] for term in weights.keys() & each.terms))


def _bridges(best: _Found, asked: frozenset[str], language: str | None) -> Iterator[str]:
    """Yield names and designations that the question does not have, of the sentences nearest to it."""
    sentences = read(best.passage).sentences(language)
    near = sorted(sentences, key=lambda each: len(asked.intersection(each.terms)), reverse=True)[:_NEAR]
    seen = set[str]()
    for sentence in near:
        for name in mentions(sentence.text, language):
            terms = frozenset(content_terms(name, language))
            if terms and asked.isdisjoint(terms) and name.casefold() not in seen:
                seen.add(name.casefold())
                yield name
