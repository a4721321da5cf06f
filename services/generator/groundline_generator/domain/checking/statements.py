"""Statements of passages, and questions that two of them may answer differently."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.concepts import is_part, related
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.differences import OPPOSITES
from groundline_generator.domain.checking.values import (
    BEFORE_NOUN,
    LIMIT,
    NOUNS,
    ORDINALS,
    REPHRASED,
    Value,
    asked_unit,
    kinds_asked,
    values,
)
from groundline_generator.domain.forms import MIN_VARIANT_LENGTH, is_variant
from groundline_generator.domain.quoting.quotation import quotation
from groundline_generator.domain.reading import Sentence
from groundline_generator.domain.references import refers_back
from groundline_generator.domain.segments import Kind
from groundline_generator.domain.signs import COUNTED

_REMEMBERED: Final = 256
"""Headings whose terms are cached."""

_terms_above = lru_cache(maxsize=_REMEMBERED)(content_terms)

_REMEMBERED_QUESTIONS: Final = 32

_MINIMUM_COMMON: Final = 2
_AUXILIARY: Final = re.compile(
    r"\b(?:do|does|did|can|could|may|must|should|will|ist|sind|hat|haben|wird|werden|wurden?|muss|müssen|soll|sollen|kann|können|darf|dürfen)\b"
)
# "may you drive" and "are refunded" have verbs, "the Polyglot app" the kind of thing that the name is of.
_REPHRASED: Final = re.compile(
    r"\b(?:[Ii]|you|we|one|they)\s+([a-z]+)\b|(?<=\s)[A-Z][\w-]+\s+([a-z]+)\b|\b([a-z]+ed)\b"
)

CONDITION: Final = re.compile(
    r"\b(?:if|unless|except|only|until|before|after|since|at least|at most|up to|more than|less than|maximum"
    r"|minimum|wenn|falls|außer|nur|bis|bevor|nach|seit|ab|mindestens|höchstens|maximal|minimal|mehr als"
    r"|weniger als|über|unter|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|sonnabends?)\b",
    re.IGNORECASE,
)

REASON: Final = re.compile(
    r"\b(?:because of|due to|owing to|for reasons of|wegen|aufgrund|aus Gründen)(?:\s[^\W\d_]+){1,3}",
    re.IGNORECASE,
)
"""A reason, which narrows nothing."""

WORD: Final = re.compile(r"[^\W\d_]+")
_YES_OR_NO: Final = re.compile(
    r"\s*(?:is|are|was|were|may|can|do|does|did|must|should|has|have|ist|sind|war|waren|darf|dürfen|kann|können"
    r"|muss|müssen|soll|hat|haben|wird|werden|gibt|bleibt|bleiben)\b",
    re.IGNORECASE,
)
_MAY: Final = re.compile(r"\s*(?:may|can|is it|darf|dürfen|kann|können)\b", re.IGNORECASE)
_PERMITTED: Final = ("allowed", "erlaubt")
_WHICH: Final = re.compile(r"\b(?:which|what|welche[mnrs]?)\s([^\W\d_]+)", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_NUMBERED: Final = frozenset(
    chain.from_iterable(content_terms(" ".join(COUNTED), each) for each in (None, "english", "german"))
)


class Statement(NamedTuple):
    """A sentence of a passage with its terms, and what says of which thing it speaks: headings, title and
    context, and the sentence before."""

    text: str
    terms: Sequence[str]
    about: str
    language: str | None
    passage: pb.NumberedPassage
    above: str
    """Title, context and headings alone."""
    around: Sequence[str]
    """Terms of `about`."""


def statement(
    passage: pb.NumberedPassage, sentences: Sequence[Sentence], place: int, language: str | None
) -> Statement:
    """Return a sentence as it is compared: a row of a table in words, an answer with its question."""
    sentence = sentences[place]
    before = sentences[place - 1] if place else None
    text = quotation(sentence) if sentence.segment.kind is Kind.ROW else sentence.text
    terms = sentence.terms
    about = above = f"{passage.title} {passage.context} {sentence.segment.heading}"
    around: Sequence[str] = _terms_above(above, language)
    if before is not None:
        about = f"{about} {before.text}"
        around = (*around, *before.terms)
        if before.text.rstrip().endswith("?") or refers_back(sentence.text):
            terms = [*before.terms, *terms]
    return Statement(text, terms, about, language, passage, above, around)


class Held(NamedTuple):
    """Terms of a question in a statement, and in it or above it."""

    inside: frozenset[str]
    everywhere: frozenset[str]


class Asked(NamedTuple):
    """A question, as two answers to it are compared."""

    text: str
    terms: frozenset[str]
    free: frozenset[str]
    """Terms by which it asks for a value, which an answer may rephrase."""
    is_of_limit: bool
    """Whether it asks for a bound, so that two bounds differ as values do."""
    conditions: frozenset[str]
    """Its own words of conditions, such as "maximum", which an answer need not repeat."""
    kinds: frozenset[str] | None
    """The kinds of values that it asks for; empty if any will do, None if it asks for none."""
    statuses: Mapping[str, bool]
    """Words that answer it by yes, and their opposites, which answer it by no."""
    thing: re.Pattern[str] | None
    """A name beside the kind of thing that it asks for: "room 4", "Raum Birke", "second floor"."""
    values: Sequence[Value]
    language: str | None
    forms: Mapping[str | None, Mapping[str, frozenset[str]]]
    """The words by which statements of a language may say each term."""
    meanings: dict[str | None, dict[str, frozenset[str]]]
    """Terms that words of a language say, of those looked up so far."""

    @property
    def needed(self) -> int:
        """Minimum of its terms that two answers share."""
        return min(_MINIMUM_COMMON, len(self.terms))

    def is_told_by(self, common: frozenset[str]) -> bool:
        """Tell whether the terms that two answers have in common are enough of it."""
        own = self.terms - self.free
        if self.statuses:
            return own <= common
        return not common.isdisjoint(own) and (len(common) >= self.needed or common >= own)

    @classmethod
    @lru_cache(maxsize=_REMEMBERED_QUESTIONS)
    def of(cls, query: str, language: str | None) -> "Asked":
        terms = frozenset(content_terms(query, language))
        kinds = kinds_asked(query)
        forms = {
            other: {term: forms_of(term, language, other) for term in terms}
            for other in (None, "english", "german")
        }
        return cls(
            query,
            terms,
            terms.intersection(content_terms(_rephrased(query, language), language)),
            LIMIT.search(query) is not None,
            conditions(query),
            kinds,
            _statuses(query, language),
            _thing(query) if kinds is None else None,
            values(query),
            language,
            forms,
            {},
        )

    def inside(self, statement: Statement) -> frozenset[str]:
        """Return the terms in a statement."""
        return self._said(self.terms, statement.language, statement.terms)

    def held(self, statement: Statement, inside: frozenset[str]) -> Held:
        above = self._said(self.terms - inside, statement.language, statement.around)
        return Held(inside, inside | above)

    def _said(self, among: frozenset[str], language: str | None, terms: Sequence[str]) -> frozenset[str]:
        known = self.meanings.setdefault(language, {})
        forms = self.forms.get(language, self.forms[None])
        found: set[str] = set()
        for word in terms:
            if word not in known:
                known[word] = frozenset(term for term, each in forms.items() if is_said(term, each, (word,)))
            found |= known[word]
        return among & found

    def may_be_of(self, statement: Statement) -> bool:
        """Tell at little cost whether a statement can hold a value and one of the terms."""
        return (
            _DIGIT.search(statement.text) is not None
            or not _NUMBERED.isdisjoint(statement.terms)
            or bool(self.kinds and self.kinds & {"weekday", "often"})
        )


def _statuses(query: str, language: str | None) -> Mapping[str, bool]:
    found: dict[str, bool] = {}
    if _YES_OR_NO.match(query) is None:
        return found
    # The German pronoun "man" has no opposite.
    words = [word for word in map(str.casefold, WORD.findall(query)) if content_terms(word, language)]
    for word in (*words, *(_PERMITTED if _MAY.match(query) else ())):
        for opposite in OPPOSITES.get(word, ()):
            found |= dict.fromkeys(OPPOSITES[opposite], True) | {opposite: False}
    return found


def _thing(query: str) -> re.Pattern[str] | None:
    found = _WHICH.search(query)
    if found is None:
        return None
    return re.compile(
        rf"\b(?i:{found[1]})\s(?P<name>[A-ZÄÖÜ\d][\w-]*)"
        rf"|\b(?i:(?P<ordinal>{'|'.join(ORDINALS)})[nmrs]?|(?P<number>\d+)\.)\s+\w*(?i:{found[1]})"
    )


def _rephrased(query: str, language: str | None) -> str:
    """Return the words of a question that an answer need not repeat: verbs, words for values, and the kind of
    thing that a name is of."""
    is_english = language == "english"
    found = [match[match.lastindex or 0] for match in _REPHRASED.finditer(query) if is_english]
    # "What torque do the screws need?", "Wie werden die Schrauben angezogen?": German nouns have a capital.
    *before, last = query.rstrip(" ?.!").split(" ")
    if last.islower() and before and before[-1] not in BEFORE_NOUN and _AUXILIARY.search(" ".join(before)):
        found.append(last)
    if unit := asked_unit(query):
        found.append(unit[2])
    # In German a noun has a capital, and a verb of the third person ends with a t.
    for word in WORD.findall(query):
        is_noun = language == "german" and word[0].isupper()
        if (
            (not is_noun or word.casefold() in NOUNS)
            and not REPHRASED.isdisjoint(content_terms(word, language))
        ) or (language == "german" and word.islower() and word.endswith("t")):
            found.append(word)
    return " ".join(found)


def forms_of(term: str, language: str | None, other: str | None) -> frozenset[str]:
    return frozenset((term,)) | (related(term, language, other) if language and other else frozenset())


def is_said(term: str, forms: frozenset[str], terms: Sequence[str]) -> bool:
    return not forms.isdisjoint(terms) or any(_is_form(term, forms, each) for each in terms)


def _is_form(term: str, forms: frozenset[str], word: str) -> bool:
    is_long = len(term) >= MIN_VARIANT_LENGTH and len(word) >= MIN_VARIANT_LENGTH
    if is_long and is_variant(term.rstrip("s"), word.rstrip("s")):
        return True
    return any(is_part(form, word) for form in forms)


def conditions(text: str) -> frozenset[str]:
    return frozenset(match.casefold() for match in CONDITION.findall(text))


def document_of(passage: pb.NumberedPassage) -> str:
    """Return what tells a passage's document from the others."""
    return passage.uri or passage.title or passage.chunk_id or str(passage.number)
