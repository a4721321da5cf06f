"""Rules by which two statements are of one matter.

Neither is of another name, year, model, part or condition, nor of something narrower.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from groundline_language.terms import content_terms

from groundline_generator.domain.checking.differences import OPPOSITES
from groundline_generator.domain.checking.statements import (
    WORD,
    Asked,
    Statement,
    conditions,
    forms_of,
    is_said,
)
from groundline_generator.domain.checking.values import DOCUMENTS, PART, Value, values
from groundline_generator.domain.reading import read
from groundline_generator.domain.signs import UNITS, beginning, designations, names, words

VALUE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Character in the place of a value that is left out."""

_QUALIFIER: Final = re.compile(
    r"\b(?:of|for|on|in|at|with|from|during|under|für|bei|beim|in|im|an|am|von|vom|mit|des|der|zum|zur|während)\s+"
    r"(?:(?:the|an?|all|each|every|any|dem|den|der|das|die|eine[mnrs]?|jede[mnrs]?|allen?)\s+)?"
    r"(?!(?:times?|once|least|most|all|total|average|present|moment|schnitt|jahr|year)\b)([^\W\d_]+)",
    re.IGNORECASE,
)

_NEAR: Final = 3
"""Words behind a value within which a preposition is of it."""

_UNIT_BEFORE: Final = re.compile(
    rf"\b(?:{'|'.join(each for each in UNITS if each.isalpha() and len(each) > 2)})\s$", re.IGNORECASE
)
"""A unit, of which the next words tell the stuff: "a litre of water"."""

_RATE: Final = re.compile(
    rf"{VALUE}\s*(?:\w+\s){{0,3}}?(?:(?:per|an?|each|every|pro|je|im|am|in der)\s|/)([^\W\d_]+)",
    re.IGNORECASE,
)

_SPANS: Final = frozenset({"s", "min", "h", "day", "week", "month", "year"})
"""Units that a value may be by."""

_TIMES: Final = frozenset({"clock", "date", "weekday"})
"""Kinds behind which a preposition tells the place of what happens then."""

_WHOSE: Final = ("of ", "for ", "von ", "vom ", "für ", "des ", "der ")
_MODIFIER: Final = re.compile(
    r"\b(?:the|an?|our|your|its|each|every|die|der|das|den|dem|eine?[nmrs]?|unsere?[nmrs]?)\s+([^\W\d_]+)\s+([^\W\d_]+)",
    re.IGNORECASE,
)

_AT: Final = re.compile(
    r"\b(?:at|with|for|above|below|from|bei|mit|für|über|unter|ab|after|nach)\s+(?:[^\W\d_]+\s+)?$",
    re.IGNORECASE,
)

_YEAR: Final = re.compile(r"(?<![\w.,:])(?:1[5-9]|20)\d\d(?![\w.,:]\d|\w)")
_DATED: Final = re.compile(
    r"\b(?:valid|effective|as of|since|from|gültig|stand|ab|seit)\s(?:[\w.]+\s){0,3}?((?:1[5-9]|20)\d\d)"
    r"(?![\w.,:]\d|\w)",
    re.IGNORECASE,
)
"""From when on a document holds."""

_DAYS: Final = frozenset({"date", "year"})

_CAPITALIZED: Final = re.compile(r"\b[A-ZÄÖÜ][^\W\d_]{2,}|\b[A-ZÄÖÜ]\b")
_DESIGNATING: Final = re.compile(r"\b(?:\w*\d\w*|x{1,3}l|plus|pro|max|mini|lite)\b")
"""Words of a title that tell one model from another, in lower case."""

_SHORTEST: Final = 3
_ALIKE: Final = 4
"""Minimum letters of the first part of a German compound, and how many of them its forms share."""

_LONG: Final = 5
"""Minimum letters of the end of a compound that tells a kind of document."""

_FEW: Final = 3
"""Words in which titles of two things of one kind may differ."""


def is_of_one_matter(
    asked: Asked,
    first: Statement,
    second: Statement,
    ours: Statement,
    theirs: Statement,
    pair: tuple[Value, Value],
) -> bool:
    """Tell whether two statements are of the same thing, time and condition; `first` and `second` are their
    parts that hold the values."""
    if PART.search(first.text) or PART.search(second.text) or _is_of_opposites(asked, first, second):
        return False
    if (
        not _same_rate(first, second)
        or not _same_years(ours, theirs, pair)
        or _are_siblings(asked, ours, theirs)
    ):
        return False
    if not names_the_same(first, second, asked, ours, theirs):
        return False
    if (conditions(first.text) ^ conditions(second.text)) - asked.conditions:
        return False
    return not any(
        _qualified(one, value, whole, asked)
        or _modified(one, whole, asked)
        or _conditioned(one, value, whole, asked)
        for one, value, whole in ((first, pair[0], theirs), (second, pair[1], ours))
    )


def _is_of_opposites(asked: Asked, first: Statement, second: Statement) -> bool:
    """Tell whether either statement is of the opposite of what the question asks about: "the small hall"."""
    wanted = frozenset(map(str.lower, WORD.findall(asked.text)))
    spoken = (frozenset(map(str.lower, WORD.findall(each.text))) for each in (first, second))
    found = (
        (said, wanted & OPPOSITES.get(one, frozenset()))
        for said in spoken
        for one in said - asked.statuses.keys()
    )
    return any(opposed and said.isdisjoint(opposed) for said, opposed in found)


def _are_siblings(asked: Asked, ours: Statement, theirs: Statement) -> bool:
    """Tell whether the titles name two things of one kind.

    They have other numbers, or one other word that the question calls by its name, or beside what it calls by
    no name, or either document says all of the few words that its title has alone.
    """
    numbers = [frozenset(_DESIGNATING.findall(each.passage.title.casefold())) for each in (ours, theirs)]
    if numbers[0] != numbers[1] and (all(numbers) or ours.language == theirs.language):
        return True
    own, other = (content_terms(each.passage.title, each.language) for each in (ours, theirs))
    left, right = ([one for one in mine if one not in their] for mine, their in ((own, other), (other, own)))
    common = set(own) & set(other)
    if (
        not common
        or not left
        or not right
        or max(len(left), len(right)) > _FEW
        or ours.language != theirs.language
    ):
        return False
    if len(own) == len(other) and sum(one != each for one, each in zip(own, other, strict=True)) == 1:
        named = frozenset(content_terms(" ".join(names(asked.text, asked.language)), asked.language))
        if (
            common - DOCUMENTS
            and (common.isdisjoint(named) or not named.isdisjoint((*left, *right)))
            and not (_is_document(ours, left) or _is_document(theirs, right))
        ):
            return True
    return all(
        word in content_terms(each.passage.text, each.language)
        for words_, each in ((left, ours), (right, theirs))
        for word in words_
    )


def _is_document(one: Statement, terms: Sequence[str]) -> bool:
    """Tell whether the title tells by one of the terms which document it is; it names a place in "Gasthof zur
    Post"."""
    places = content_terms(" ".join(_QUALIFIER.findall(one.passage.title)), one.language)
    return any(
        term not in places
        and (term in DOCUMENTS or any(len(each) >= _LONG and term.endswith(each) for each in DOCUMENTS))
        for term in terms
    )


def _same_rate(first: Statement, second: Statement) -> bool:
    """Tell whether not one value is by the month and the other by the year."""
    found = [_RATE.search(each.text) for each in (first, second)]
    units = {UNITS.get(each[1].casefold()) for each in found if each} & _SPANS
    return len(units) < 2


def _same_years(ours: Statement, theirs: Statement, pair: tuple[Value, Value]) -> bool:
    if all(each.of_year().kind == "year" for each in pair):
        return True
    own, other = (
        frozenset(_YEAR.findall(f"{each.above} {each.text}")).union(_dated(each)) for each in (ours, theirs)
    )
    return own == other or not own.isdisjoint(other)


def _dated(statement: Statement) -> Iterator[str]:
    """Yield the years from which on a statement holds, by the sentence before it, or by one that states
    nothing else."""
    yield from _DATED.findall(statement.about)
    for each in read(statement.passage).sentences(statement.language):
        if (found := _DATED.findall(each.text)) and _DAYS.issuperset(one.kind for one in values(each.text)):
            yield from found


def names_the_same(
    first: Statement, second: Statement, asked: Asked, ours: Statement, theirs: Statement
) -> bool:
    """Tell whether what either names, by a designation or a name, stands in or above the other, and what
    stands above both is not of different designations."""
    placed = [designations(f"{each.about} {each.text}") for each in (ours, theirs)]
    if all(placed) and placed[0].isdisjoint(placed[1]):
        return False
    for one, other, own in ((first, theirs, ours), (second, ours, theirs)):
        around = f"{other.about} {other.text} {asked.text}"
        if not designations(one.text) <= designations(around):
            return False
        known = words(around)
        # Where a document speaks of one of several, its title says of which.
        titled = frozenset(_CAPITALIZED.findall(own.about)).intersection(_CAPITALIZED.findall(one.text))
        if any(beginning(name) not in known for name in (*names(one.text, one.language), *titled)):
            return False
    return True


def _qualified(one: Statement, value: Value, whole: Statement, asked: Asked) -> bool:
    """Tell whether one statement is of something narrower: "for managers", "of the sensor".

    Behind the value, what stands far from it says more of another verb: "£80 has to be left at the desk".
    """
    end = one.text.find(VALUE) + 1
    of = content_terms(
        " ".join(
            found[1]
            for found in _QUALIFIER.finditer(one.text)
            if not _UNIT_BEFORE.search(one.text, 0, found.start())
            and UNITS.get(found[1].casefold()) not in _SPANS
            and not (
                value.kind in _TIMES
                and found.start() > end
                and not found.group().casefold().startswith(_WHOSE)
            )
            and (
                len(one.text[end : found.start()].split()) < _NEAR
                or found.group().casefold().startswith(_WHOSE)
            )
        ),
        one.language,
    )
    return _is_more(of, one, whole, asked)


def _conditioned(one: Statement, value: Value, whole: Statement, asked: Asked) -> bool:
    """Tell whether one statement holds at some other value: "at 80 °C", "nach 5 Jahren"."""
    # "On Mondays from 8 a.m." tells more of the same time.
    alike = _TIMES if value.kind in _TIMES else ()
    at = [each for each in values(one.text) if each.kind not in alike and _AT.search(one.text, 0, each.start)]
    known = [*asked.values, *values(f"{whole.about} {whole.text}")] if at else []
    return any(not any(each.kind == other.kind for other in known) for each in at)


def _modified(one: Statement, whole: Statement, asked: Asked) -> bool:
    """Tell whether one statement has an adjective before a word of the question, or a compound that ends with
    it, which the other has not."""
    forms = asked.forms.get(one.language, asked.forms[None])
    strong = asked.terms - asked.free
    for modifier, word in _MODIFIER.findall(one.text):
        noun = content_terms(word, one.language)
        is_asked = noun and any(is_said(term, forms[term], noun) for term in strong)
        if is_asked and _is_more(content_terms(modifier, one.language), one, whole, asked):
            return True
    if one.language != "german":
        return False
    first = [
        each.removesuffix(term)
        for each in content_terms(one.text, one.language)
        for term in strong
        if each.endswith(term) and len(each) - len(term) >= _SHORTEST
    ]
    known = (*whole.terms, *whole.around, *asked.terms)
    return any(not any(each[:_ALIKE] in word for word in known) for each in first)


def _is_more(terms: Sequence[str], one: Statement, whole: Statement, asked: Asked) -> bool:
    """Tell whether neither the other statement nor the question says one of the terms."""
    known = (*whole.terms, *whole.around)
    of_question = tuple(asked.terms)
    return any(
        not is_said(term, forms_of(term, one.language, whole.language), known)
        and not is_said(term, forms_of(term, one.language, asked.language), of_question)
        for term in terms
    )
