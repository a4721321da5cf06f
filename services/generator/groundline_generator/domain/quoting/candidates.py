"""Questions, with what they ask for, and the sentences that may answer them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Final

from groundline_language.terms import content_terms

from groundline_generator.domain.asking.changes import time_before_change
from groundline_generator.domain.asking.counting import counted
from groundline_generator.domain.asking.defining import defined
from groundline_generator.domain.asking.negations import (
    asks_what_is_not,
    denying_words,
    light_words,
    only_permits,
    sets_limits,
)
from groundline_generator.domain.asking.times import Told, asked_time, words_of_validity
from groundline_generator.domain.comparing import degrees
from groundline_generator.domain.measures import asked_measures, measured
from groundline_generator.domain.quoting.quotation import quotation
from groundline_generator.domain.reading import Sentence
from groundline_generator.domain.references import refers_back
from groundline_generator.domain.segments import Kind
from groundline_generator.domain.signs import designated, names

_OTHER_QUESTION: Final = 0.3
"""Factor of the score and relevance of a sentence that permits where is asked what is forbidden; below the
default of `min_relevance`."""


@dataclass(slots=True)
class Candidate:
    """A sentence of a passage. `hits` counts the question's terms in it, `size` all of its terms; `heading`
    holds the terms of the headings, title and context above it, `in_heading` those of the question.
    `own_share` is the weighted share of the question's terms in it and above it, `is_of_kind` tells whether
    it holds a date, a name or a number where one is asked for: if things are to be counted, one of them."""

    passage: int
    position: int
    sentence: Sentence
    language: str | None
    hits: dict[str, int]
    size: int
    heading: frozenset[str]
    in_heading: frozenset[str]
    implied: frozenset[str] = frozenset()
    """The terms by which a question asks what is not so, if it says so in other words."""
    denies: bool = False
    """Whether it says that something is not so, if a question asks for that."""
    score: float = 0.0
    relevance: float = 0.0
    own_share: float = 0.0
    is_of_kind: bool = False
    is_spelt_out: bool = False
    """Whether it gives the words for the letters that a question asks about."""
    is_of_other_question: bool = False
    times: Told | None = None
    """The times that it tells of, if one is asked about."""
    is_of_time: bool | None = None
    """Whether it tells of the time asked about; None if it does not say, or if no time is asked about."""

    def fade(self) -> None:
        """Count for less, since it answers another question: it is not quoted where it is the best there is,
        nor beside others."""
        self.score *= _OTHER_QUESTION
        self.relevance *= _OTHER_QUESTION
        self.is_of_other_question = True

    def stand_in_for(self, other: "Candidate") -> None:
        """Count as much as another sentence, which names what this one is about, did before it faded."""
        self.hits = {**other.hits, **self.hits}
        self.score = max(self.score, other.score)
        self.relevance = max(self.relevance, other.relevance)

    def measured(self, measures: frozenset[str]) -> frozenset[str]:
        """Return those of the measures of which it has a value."""
        is_row = self.sentence.segment.kind is Kind.ROW
        return measured(quotation(self.sentence), measures, is_row=is_row) if measures else frozenset()

    @property
    def sets_limits(self) -> bool:
        """Whether it says that something is not so, or only so."""
        return self.denies or sets_limits(self.sentence.text)

    @property
    def only_permits(self) -> bool:
        """Whether it says what may be done, and nothing of what may not."""
        return not self.denies and only_permits(self.sentence.text)

    @property
    def refers_back(self) -> bool:
        """Whether it is about what the sentence before it names."""
        return refers_back(self.sentence.text)

    @property
    def is_about(self) -> frozenset[str]:
        """The question's terms in the sentence and in what stands above it."""
        return self.in_heading.union(self.hits)


class Question:
    """A question with its terms, of which a sentence or its headings must have the `required`; `language` is
    what the passages are in if the question tells none, `sentences` are theirs."""

    def __init__(self, text: str, language: str | None, today: date, sentences: Iterable[str] = ()) -> None:
        self.text = text
        self.time = asked_time(text, language, today) or time_before_change(text, sentences, today)
        self.timeless = self.time.timeless if self.time else text
        self.language = language
        self.defined = defined(text, language)
        self.terms = frozenset(content_terms(self.defined.text if self.defined else text, language))
        if self.time:
            self.terms -= frozenset(content_terms(self.time.filler, language))
        self.asks_what_is_not = asks_what_is_not(text)
        denying = denying_words(text) if self.asks_what_is_not else ""
        self.denying = frozenset(content_terms(denying, language))
        """The terms by which it asks what is not so."""
        self.matter = self.terms - self.denying - frozenset(content_terms(light_words(text), language))
        """The terms by which it tells what it asks about, without verbs that say little."""
        self.asks_degree = bool(asked := degrees(text))
        self.degrees = frozenset(content_terms(" ".join(asked), language))
        validity = words_of_validity(text) if self.time else ""
        self.validity = frozenset(content_terms(validity, language))
        """The terms by which it asks what was valid at a time; a sentence of that time need not have them."""
        self.names = frozenset(content_terms(" ".join(names(text, language)), language))
        self.counted = counted(text, language)
        self.weights: Mapping[str, float] = {}
        """The terms with their weights, which `scored` finds."""
        self.required = frozenset[str]()
        self.measures = frozenset[str]()
        """The measures of which a sentence has to have a value, if things are compared by one."""
        self._designations = [frozenset(content_terms(shown, language)) for shown, _ in designated(text)]
        self.designated = frozenset[str]().union(*self._designations)
        """The terms of its designations, such as a model's number."""

    def is_told_by(self, candidate: Candidate) -> bool:
        """Tell whether a sentence is of the time asked about, and has all else that the question names in it
        or above it."""
        named = frozenset(content_terms(self.timeless, self.language)) - self.validity
        return bool(candidate.is_of_time) and named <= candidate.is_about

    @property
    def measuring(self) -> frozenset[str]:
        """The terms by which it asks for a measure, which a value of that says in other words."""
        asked = chain.from_iterable(asked_measures(self.text).values())
        return self.degrees.union(content_terms(" ".join(asked), self.language))

    def share_of(self, terms: frozenset[str]) -> float:
        """Return the weighted share of the question that some terms have."""
        total = sum(self.weights.values())
        return sum(self.weights.get(term, 0.0) for term in terms) / total if total else 0.0

    def require(self, terms: frozenset[str]) -> None:
        """Require terms, and all those of a designation that has one of them."""
        for parts in self._designations:
            if not parts.isdisjoint(terms):
                terms |= parts
        self.required = terms
