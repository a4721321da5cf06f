"""Rules for what a claim says otherwise than its passages: numbers, units, designations, names and negation.

They read no meaning. A claim is compared with the sentences that share its words; where it is nearly one of
them, a word in place of another counts, and elsewhere only what must be said in the same signs anywhere.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from groundline.v1 import error_pb2

from groundline_generator.domain.language import content_terms
from groundline_generator.domain.signs import (
    COUNTED,
    Quantity,
    beginning,
    designated,
    designation_form,
    designations,
    names,
    quantities,
    words,
)

__all__ = ["Contradiction", "Said", "Statement", "contradiction", "denied"]


class Statement(NamedTuple):
    """A sentence of a passage with its terms, and what says of which thing it speaks: headings, title and
    context, and the sentence before."""

    text: str
    terms: Sequence[str]
    about: str


class Said:
    """All sentences of the passages that a claim cites, and their signs, read once for each such set."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements

    @cached_property
    def _text(self) -> str:
        return " ".join(f"{statement.about} {statement.text}" for statement in self.statements)

    @cached_property
    def quantities(self) -> Sequence[Quantity]:
        return tuple(quantities(self._text))

    @cached_property
    def designations(self) -> frozenset[str]:
        return designations(self._text)

    @cached_property
    def words(self) -> frozenset[str]:
        return words(self._text)


class Contradiction(NamedTuple):
    """Words of a claim that its passages do not bear out."""

    reason: error_pb2.ErrorReason.ValueType
    words: str


_NEARLY_SAID: Final = 0.7
"""Share of a claim's terms in one sentence from which a different word is taken to contradict it."""

_RECOGNISED: Final = 0.5
"""Share of a claim's terms in one sentence from which a name in it may stand for another of the claim."""

_ABOUT_ELSE: Final = 0.5
"""Share of a claim's terms around a number below which the number is of something else.

The three were set by looking at falsified sentences of xquad and at claims of FEVER; they are not fitted."""

_AS_NEAR: Final = 0.05
"""Maximum difference of two sentences' shares of a claim's terms by which they are equally near to it."""

_NEGATED_TERMS: Final = 3
"""How many terms behind its word, or before it where none follow, a negation is taken to deny."""

_NEGATION: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|nicht|nie|niemals|nirgends|ohne"
    r"|niemand|nichts|weder|kein\w{0,2})\b|n['’]t\b",
    re.IGNORECASE,
)
_NO_DENIAL: Final = re.compile(
    r"\b(?:not only|nicht nur|no (?:more|less|later|fewer) than|No\.? ?\d)", re.IGNORECASE
)


def contradiction(claim: str, said: Said, language: str | None) -> Contradiction | None:
    """Return the first thing that the passages do not bear out, if the rules find one: a number or unit, a
    designation, a name, or whether it is so at all. `language` is the claim's, if known."""
    wanted = frozenset(content_terms(claim, language))
    if not wanted or not said.statements:
        return None
    shares = [_share(wanted, statement.terms) for statement in said.statements]
    best = max(shares)
    nearest = [
        statement
        for statement, share in zip(said.statements, shares, strict=True)
        if share >= best - _AS_NEAR
    ]
    return (
        _wrong_quantity(claim, said, wanted, language)
        or _unknown_designation(claim, nearest[0], said)
        or (_wrong_name(claim, nearest[0], said, best, language) if best >= _RECOGNISED else None)
        or (_negated(claim, nearest, language) if best >= _NEARLY_SAID else None)
    )


def _share(wanted: frozenset[str], terms: Iterable[str]) -> float:
    return len(wanted.intersection(terms)) / len(wanted)


def _wrong_quantity(
    claim: str, said: Said, wanted: frozenset[str], language: str | None
) -> Contradiction | None:
    for quantity in quantities(claim):
        same = [one for one in said.quantities if one.is_of_value(quantity)]
        # A count in words may sum up what a passage enumerates.
        if not (same or quantity.shown in COUNTED):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
        if same and quantity.unit and all(one.unit not in (None, quantity.unit) for one in same):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
        if _is_of_something_else(quantity, claim, said.statements, wanted, language):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
    return None


def _is_of_something_else(
    quantity: Quantity,
    claim: str,
    said: Sequence[Statement],
    wanted: frozenset[str],
    language: str | None,
) -> bool:
    """Tell whether a sentence is nearly the claim with another number, and none with this number is."""
    others = wanted - frozenset(content_terms(quantity.shown, language))
    if not others:
        return False
    here = elsewhere = 0.0
    for statement in said:
        numbers = list(quantities(statement.text))
        if any(one.is_of_value(quantity) for one in (*numbers, *quantities(statement.about))):
            if _replaced_designation(claim, statement):
                continue
            above = content_terms(statement.about, language)
            here = max(here, _share(others, (*statement.terms, *above)))
        elif any(one.unit == quantity.unit for one in numbers):
            elsewhere = max(elsewhere, _share(others, statement.terms))
    return here < _ABOUT_ELSE and elsewhere >= _NEARLY_SAID


def _unknown_designation(claim: str, nearest: Statement, said: Said) -> Contradiction | None:
    unknown = (shown for shown, key in designated(claim) if key not in said.designations)
    shown = next(unknown, None) or _replaced_designation(claim, nearest)
    return Contradiction(error_pb2.NAME_NOT_SUPPORTED, shown) if shown else None


def _replaced_designation(claim: str, statement: Statement) -> str | None:
    """Return a designation in whose place a statement has another; one of another form, such as a rule's
    number beside a type, is not in its place."""
    own = list(designated(claim))
    if not own:
        return None
    near = designations(f"{statement.about} {statement.text}")
    forms = frozenset(map(designation_form, near))
    return next((shown for shown, key in own if key not in near and designation_form(key) in forms), None)


def _wrong_name(
    claim: str, nearest: Statement, said: Said, share: float, language: str | None
) -> Contradiction | None:
    """Find a name that no passage has: in what is nearly a sentence of theirs, or in another name's place."""
    spoken = words(claim)
    missing = next((name for name in names(claim, language) if beginning(name) not in said.words), None)
    replaced = any(beginning(name) not in spoken for name in names(nearest.text, language))
    if missing is None or not (replaced or share >= _NEARLY_SAID):
        return None
    return Contradiction(error_pb2.NAME_NOT_SUPPORTED, missing)


def _negated(claim: str, nearest: Sequence[Statement], language: str | None) -> Contradiction | None:
    """Find a claim that denies what each of the nearest sentences says, or says what each of them denies."""
    found = ""
    for statement in nearest:
        found = denied(claim, statement.text, language) or denied(statement.text, claim, language)
        if not found:
            return None
    return Contradiction(error_pb2.CONTRADICTED_SENTENCE, found)


def denied(denying: str, saying: str, language: str | None) -> str:
    """Return the word by which a sentence denies what the other says, in which nothing is denied; else ""."""
    plain = _NO_DENIAL.sub(" ", denying)
    if _NEGATION.search(_NO_DENIAL.sub(" ", saying)):
        return ""
    said = frozenset(content_terms(saying, language))
    for word in _NEGATION.finditer(plain):
        behind = content_terms(plain[word.end() :], language)[:_NEGATED_TERMS]
        # German may deny at the end: "Schließen Sie das Ventil nicht."
        if said.intersection(behind or content_terms(plain[: word.start()], language)[-_NEGATED_TERMS:]):
            return word.group()
    return ""
