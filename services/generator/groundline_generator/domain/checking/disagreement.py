"""Rules for two sources that answer the same question differently: with another value, or with a negation.

They flag what a reader has to decide. Two sentences answer the same if each has, in it or above it, what the
other has of the question, and both are of one matter.
"""

import re
from collections.abc import Sequence
from itertools import chain, product
from typing import Final

from groundline_language.concepts import other_language, related
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.differences import denied_alone
from groundline_generator.domain.checking.matters import VALUE, is_of_one_matter, names_the_same
from groundline_generator.domain.checking.statements import (
    CONDITION,
    REASON,
    WORD,
    Asked,
    Held,
    Statement,
    conditions,
    forms_of,
    is_said,
)
from groundline_generator.domain.checking.values import (
    AFTER,
    ORDINALS,
    TITLES,
    Value,
    asked_unit,
    persons,
    values,
)
from groundline_generator.domain.checking.wording import WordedText
from groundline_generator.domain.signs import quantities

_SAME_MATTER: Final = 0.5
"""Minimum share of common terms, in the shorter sentence, of which one denies the other."""

_NEGATIONS: Final = frozenset(["cannot", "never", "nobodi", "noth", "nie", "niemal"])
"""Terms that only one of two sentences has if it denies the other."""

_CONDITION_BEFORE: Final = re.compile(
    rf"(?:{CONDITION.pattern}\s+(?:\w+\s+)?|\b(?:at|of|on|in|from|um|am|von|im)\s+)+$", re.IGNORECASE
)

_LOOKED_AT: Final = 60
"""Characters before a value among which its conditions stand."""

_CLAUSE: Final = re.compile(
    r"[;:]\s|,\s(?=\w+\s(?:of|davon)\s)|\s(?:and|but|so|which|und|aber|sowie|wobei)\s", re.IGNORECASE
)
"""Where a sentence goes on to another matter."""


def disagreement(asked: Asked, ours: Statement, theirs: Statement) -> tuple[str, str] | None:
    """Return what each of two sentences says, if they answer the question differently."""
    found = _stated_otherwise(asked, ours, theirs)
    return found or (_denial(asked, ours, theirs) if asked.kinds is None else None)


def _stated_otherwise(asked: Asked, ours: Statement, theirs: Statement) -> tuple[str, str] | None:
    # Most sentences state nothing of the kind, and are read once; terms are looked up anew for each question.
    pair = _pair(asked, ours, theirs)
    if pair is None:
        return None
    inside = asked.inside(theirs)
    if not inside or inside.isdisjoint(asked.inside(ours)):
        return None
    own, other = asked.held(ours, asked.inside(ours)), asked.held(theirs, inside)
    if _goes_on(asked, ours, pair[0], own) or _goes_on(asked, theirs, pair[1], other):
        return None
    if not asked.is_told_by(own.everywhere & other.everywhere):
        return None
    if not (own.inside <= asked.free | other.everywhere and other.inside <= asked.free | own.everywhere):
        return None
    first, second = (
        each._replace(text=_clause(each.text, value))
        for each, value in zip((ours, theirs), pair, strict=True)
    )
    if not is_of_one_matter(asked, first, second, ours, theirs, pair):
        return None
    return pair[0].shown, pair[1].shown


def _goes_on(asked: Asked, one: Statement, value: Value, held: Held) -> bool:
    """Tell whether a sentence goes on to another thing than the one before it, which states a value of its
    own: after "The chapel was built in 1712" the year of the school."""
    before = one.about.removeprefix(one.above)
    if all(each.kind != value.kind for each in values(before)):
        return False
    without = asked.held(one._replace(around=content_terms(one.above, one.language)), held.inside)
    return not held.everywhere - without.everywhere <= asked.free


def _pair(asked: Asked, ours: Statement, theirs: Statement) -> tuple[Value, Value] | None:
    """Return what each states of what the question asks for, if that differs."""
    if asked.statuses:
        # One says that it is so, and the other that it is not.
        own = _status(asked, ours)
        if own and (other := _status(asked, theirs)) and own.differs(other):
            return own, other
    if asked.kinds is None or "person" in asked.kinds:
        return _other_name(asked, ours, theirs)
    return _apart(asked, ours, theirs) if asked.may_be_of(ours) and asked.may_be_of(theirs) else None


def _status(asked: Asked, one: Statement) -> Value | None:
    found = [each for each in WORD.finditer(one.text) if each.group().casefold() in asked.statuses]
    if len(found) != 1:
        return None
    [word] = found
    denials = WordedText(one.text, one.language).denials
    terms = content_terms(word.group(), one.language)
    if len(denials) > 1 or any(each.terms.isdisjoint(terms) for each in denials):
        return None
    is_so = asked.statuses[word.group().casefold()] != bool(denials)
    shown = " ".join((*(each.word for each in denials), word.group()))
    return Value("status", is_so, is_so, shown, *word.span())


def _other_name(asked: Asked, ours: Statement, theirs: Statement) -> tuple[Value, Value] | None:
    """Return the one person that either names, or the one thing of the kind that is asked for, if they are
    two."""
    if asked.kinds is None and asked.thing is None:
        return None
    known = frozenset(word.casefold() for word in WORD.findall(f"{asked.text} {ours.about} {theirs.about}"))
    pair = []
    for each in (ours, theirs):
        if asked.thing is not None:
            found = [match[match.lastgroup or 0] for match in asked.thing.finditer(each.text)]
        else:
            found = [one for one in persons(each.text, known) if _is_name(one, each.language)]
        if len(set(found)) != 1:
            return None
        start = each.text.find(found[0])
        pair.append(Value("name", 0, 0, found[0], start, start + len(found[0])))
    first, second = pair
    own, other = (frozenset(each.shown.casefold().split()) - TITLES for each in pair)
    numbers = [{str(ORDINALS.get(word, word)) for word in each} for each in (own, other)]
    return (first, second) if numbers[0].isdisjoint(numbers[1]) else None


def _is_name(words: str, language: str | None) -> bool:
    """Tell whether some of the words are no common ones, as "Liebe Eltern" are, or a title is before them."""
    other = other_language(language)
    is_titled = words.partition(" ")[0].casefold() in TITLES
    return (
        is_titled
        or not other
        or not all(related(each, language or "", other) for each in content_terms(words, language))
    )


def _apart(asked: Asked, ours: Statement, theirs: Statement) -> tuple[Value, Value] | None:
    """Return the values of the one kind in which two statements differ; None if there is no such kind."""
    assert asked.kinds is not None
    own, other = (
        [
            each.of_hours() if "clock" in asked.kinds else each
            for each in values(one.text)
            if not any(value.kind == each.kind and not each.differs(value) for value in asked.values)
        ]
        for one in (ours, theirs)
    )
    if any(all(each.kind != "date" for each in side) for side in (own, other)):
        own, other = ([each.of_year() for each in side] for side in (own, other))
    wanted = asked_unit(asked.text)
    found = []
    common = {each.kind for each in own} & {each.kind for each in other}
    kinds = {kind for kind in common if (kind == wanted[1] if wanted else _answers(kind, asked.kinds))}
    if not kinds and "date" in asked.kinds and all(AFTER.search(each.text) for each in (ours, theirs)):
        kinds = common & {"duration"}
    for kind in kinds:
        left, right = ([each for each in values_ if each.kind == kind] for values_ in (own, other))
        if asked.is_of_limit:
            left, right = ([each._replace(bound="") for each in side] for side in (left, right))
        if wanted and all(any(each.unit == wanted[0] for each in side) for side in (left, right)):
            left, right = ([each for each in side if each.unit == wanted[0]] for side in (left, right))
        if kind == "clock" and len(left) == len(right) > 1:
            if any(one.differs(each) for one, each in zip(left, right, strict=True)):
                found.append((_joined(left, ours), _joined(right, theirs)))
            continue
        if kind == "count":
            left, right = _of_one_thing(asked, left, right, ours.language, theirs.language)
        if not left or not right or any(not one.differs(each) for one, each in product(left, right)):
            continue
        if len(left) != 1 or len(right) != 1:
            return None
        found.append((left[0], right[0]))
    return found[0] if len(found) == 1 else None


def _joined(hours: Sequence[Value], one: Statement) -> Value:
    """Return several hours of a day as one value."""
    start, end = hours[0].start, hours[-1].end
    return hours[0]._replace(high=hours[-1].high, end=end, shown=one.text[start:end])


def _answers(kind: str, kinds: frozenset[str]) -> bool:
    if not kinds:
        return kind not in ("year", "weekday", "clock", "date", "often")
    return kind in kinds or kind.partition("_")[0] in kinds


def _of_one_thing(
    asked: Asked, left: Sequence[Value], right: Sequence[Value], language: str | None, other: str | None
) -> tuple[list[Value], list[Value]]:
    """Return the numbers of things that both statements count."""
    own = [content_terms(each.thing, language) for each in left]
    their = [content_terms(each.thing, other) for each in right]

    def alike(one: Sequence[str], each: Sequence[str]) -> bool:
        return any(is_said(term, forms_of(term, language, other), each) for term in one)

    return (
        [value for value, thing in zip(left, own, strict=True) if any(alike(thing, each) for each in their)],
        [value for value, thing in zip(right, their, strict=True) if any(alike(each, thing) for each in own)],
    )


def _clause(text: str, value: Value) -> str:
    """Return the part of a sentence that holds a value, without the value and the conditions beside it."""
    start, end = 0, len(text)
    for cut in _CLAUSE.finditer(text):
        if cut.end() <= value.start:
            start = cut.end() if cut.group()[0] in ";:" else cut.start()
        elif cut.start() >= value.end:
            end = cut.start()
            break
    # In "after three months" the condition belongs to the value, and is left out with it.
    near = max(start, value.start - _LOOKED_AT)
    before = text[start:near] + _CONDITION_BEFORE.sub("", text[near : value.start])
    return REASON.sub("", f"{before} {VALUE} {text[value.end : end]}")


def _denial(asked: Asked, ours: Statement, theirs: Statement) -> tuple[str, str] | None:
    if len(asked.terms.intersection(ours.terms).intersection(theirs.terms)) < asked.needed:
        return None
    mine, their = frozenset(ours.terms), frozenset(theirs.terms)
    if (mine ^ their) - _NEGATIONS or len(mine & their) / max(1, min(len(mine), len(their))) < _SAME_MATTER:
        return None
    if not names_the_same(ours, theirs, asked, ours, theirs):
        return None
    if (conditions(ours.text) ^ conditions(theirs.text)) - asked.conditions:
        return None
    own, other = (
        frozenset(chain.from_iterable(one.values for one in quantities(each.text))) for each in (ours, theirs)
    )
    if own != other:
        return None
    own_words, other_words = (WordedText(each.text, asked.language) for each in (ours, theirs))
    found = denied_alone(own_words, other_words) or denied_alone(other_words, own_words)
    return (ours.text.strip(), theirs.text.strip()) if found else None
