"""Rules for two sources that answer the same question differently: with another number, or with a negation.

They flag what a reader has to decide. Sentences count as being of one matter if both have what the question
asks about, name the same things, and share at least half of their terms; a condition that only one of them
has (a year, a temperature, a limit) makes them two matters.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.terms import content_terms

from groundline_generator.domain.asking.asked import DATE, NUMBER, asked_for
from groundline_generator.domain.checking.differences import denied_alone
from groundline_generator.domain.checking.wording import WordedText
from groundline_generator.domain.signs import Quantity, beginning, designations, names, quantities, words

_SAME_MATTER: Final = 0.5
_SAME_SENTENCE: Final = 0.75
"""Minimum shares of common terms, numbers aside, in the shorter sentence: for a number with a unit, and for
one without. A negation has to be of the same terms."""

_MINIMUM_COMMON: Final = 2

_NEGATIONS: Final = frozenset(["cannot", "never", "nobodi", "noth", "nie", "niemal"])
"""Terms that only one of two sentences has if it denies the other."""

# "What torque do the screws need?", "Wie werden die Schrauben angezogen?": German nouns have a capital.
_LAST_VERB: Final = re.compile(
    r"(\b(?:do|does|did)\b.*|\b(?:wird|werden|wurden?|muss|müssen|soll|sollen|kann|können|darf|dürfen)\b.*)"
    r"\s[a-zäöüß]+\s*[?.!]*\s*$"
)

_CONDITION: Final = re.compile(
    r"\b(?:if|unless|except|only|until|before|after|since|at least|at most|up to|more than|less than|maximum"
    r"|minimum|wenn|falls|außer|nur|bis|bevor|nach|seit|ab|mindestens|höchstens|maximal|minimal|mehr als"
    r"|weniger als|über|unter|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|sonnabends?)\b",
    re.IGNORECASE,
)
_QUALIFIER: Final = re.compile(
    r"\b(?:of|for|on|in|at|with|from|during|under|für|bei|beim|in|im|an|am|von|vom|mit|des|der|zum|zur|während)\s+"
    r"(?:(?:the|an?|all|each|every|any|dem|den|der|das|die|eine[mnrs]?|jede[mnrs]?|allen?)\s+)?([^\W\d_]+)",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """A sentence of a passage with its terms, and what says of which thing it speaks: headings, title and
    context, and the sentence before."""

    text: str
    terms: Sequence[str]
    about: str


class Asked(NamedTuple):
    """A question, as two answers to it are compared."""

    terms: frozenset[str]
    """Its terms but the verb at its end, which an answer may rephrase."""
    conditions: frozenset[str]
    """Its own words of conditions, such as "maximum", which an answer need not repeat."""
    wants_number: bool
    language: str | None

    @property
    def needed(self) -> int:
        """Minimum of its terms that two answers share."""
        return min(_MINIMUM_COMMON, len(self.terms))

    @classmethod
    def of(cls, query: str, language: str | None) -> "Asked":
        matter = _LAST_VERB.sub(r"\1", query)
        terms = frozenset(content_terms(matter, language))
        return cls(terms, _conditions(query), asked_for(query) in (NUMBER, DATE), language)


def document_of(passage: pb.NumberedPassage) -> str:
    """Return what tells a passage's document from the others."""
    return passage.uri or passage.title or passage.chunk_id or str(passage.number)


def disagreement(asked: Asked, ours: Statement, theirs: Statement) -> tuple[str, str] | None:
    """Return what each of two sentences says, if they answer the question differently."""
    # Numbers are read only where the rest is of one matter: that takes longer than all else.
    if len(asked.terms.intersection(ours.terms).intersection(theirs.terms)) < asked.needed:
        return None
    if not _is_of_the_question(asked, ours, theirs):
        return None
    own, other = list(quantities(ours.text)), list(quantities(theirs.text))
    mine, their = _terms(ours, own, asked.language), _terms(theirs, other, asked.language)
    share = len(mine & their) / max(1, min(len(mine), len(their)))
    if share < _SAME_MATTER or not _names_the_same(ours, theirs, asked.language):
        return None
    if (_conditions(ours.text) ^ _conditions(theirs.text)) - asked.conditions:
        return None
    if _qualified(ours, theirs, asked.language) or _qualified(theirs, ours, asked.language):
        return None
    pair = _different(own, other)
    if pair and (pair[0].unit or (asked.wants_number and share >= _SAME_SENTENCE)):
        return pair[0].shown, pair[1].shown
    if pair is None and not (mine ^ their) - _NEGATIONS and _values(own) == _values(other):
        own_words, other_words = (WordedText(each.text, asked.language) for each in (ours, theirs))
        found = denied_alone(own_words, other_words) or denied_alone(other_words, own_words)
        return (ours.text.strip(), theirs.text.strip()) if found else None
    return None


def _is_of_the_question(asked: Asked, ours: Statement, theirs: Statement) -> bool:
    """Tell whether what either has of the question stands in or above the other, too."""

    def held(statement: Statement) -> frozenset[str]:
        return asked.terms.intersection((*statement.terms, *content_terms(statement.about, asked.language)))

    return asked.terms.intersection(ours.terms) <= held(theirs) and asked.terms.intersection(
        theirs.terms
    ) <= held(ours)


def _names_the_same(ours: Statement, theirs: Statement, language: str | None) -> bool:
    """Tell whether what either names, by a designation or a name, stands in or above the other, and what
    stands above both is not of different designations."""
    placed = [designations(f"{each.about} {each.text}") for each in (ours, theirs)]
    if all(placed) and placed[0].isdisjoint(placed[1]):
        return False
    for one, other in ((ours, theirs), (theirs, ours)):
        around = f"{other.about} {other.text}"
        if not designations(one.text) <= designations(around):
            return False
        known = words(around)
        if any(beginning(name) not in known for name in names(one.text, language)):
            return False
    return True


def _different(own: Sequence[Quantity], other: Sequence[Quantity]) -> tuple[Quantity, Quantity] | None:
    """Return the one number in which they differ; None if it is none, several, or one without its like."""
    left = [one for one in own if not any(one.is_of_value(each) for each in other)]
    right = [one for one in other if not any(one.is_of_value(each) for each in own)]
    if len(left) == len(right) == 1 and left[0].unit == right[0].unit and len(own) == len(other):
        return left[0], right[0]
    return None


def _values(found: Iterable[Quantity]) -> frozenset[str]:
    return frozenset().union(*(one.values for one in found))


def _conditions(text: str) -> frozenset[str]:
    return frozenset(match.casefold() for match in _CONDITION.findall(text))


def _qualified(ours: Statement, theirs: Statement, language: str | None) -> bool:
    """Tell whether one sentence is of something narrower: "for managers", "of the sensor"."""
    of = " ".join(_QUALIFIER.findall(ours.text))
    known = frozenset((*theirs.terms, *content_terms(theirs.about, language)))
    return not known.issuperset(content_terms(of, language))


def _terms(statement: Statement, found: Iterable[Quantity], language: str | None) -> frozenset[str]:
    shown = content_terms(" ".join(one.shown for one in found), language)
    return frozenset(statement.terms).difference(shown)
