"""Rules for what a claim says otherwise than its passages: numbers, units, designations, names and negation.

They read no meaning. A claim is compared with the sentences that share its words; where it is nearly one of
them, a word in place of another counts, and elsewhere only what must be said in the same signs anywhere.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Final, NamedTuple

from groundline.v1 import error_pb2

from groundline_generator.domain.language import content_terms

__all__ = ["Contradiction", "Statement", "contradiction"]


class Statement(NamedTuple):
    """A sentence of a passage with its terms, and what says of which thing it speaks: headings, title and
    context, and the sentence before."""

    text: str
    terms: Sequence[str]
    about: str


class Contradiction(NamedTuple):
    """Words of a claim that its passages do not bear out."""

    reason: error_pb2.ErrorReason.ValueType
    words: str


_NEARLY_SAID: Final = 0.7
"""Share of a claim's terms in one sentence from which a different word replaces one and is no paraphrase."""

_RECOGNISED: Final = 0.5
"""Share of a claim's terms in one sentence from which a name in it may stand for another of the claim."""

_ABOUT_ELSE: Final = 0.5
"""Share of a claim's terms around a number below which the number is of something else.

The three were set by looking at falsified sentences of xquad and at claims of FEVER; they are not fitted."""

_NUMBER: Final = re.compile(
    r"(?:(?<![\w.,:/$€£-])|(?<=\d[-–—/]))(\d+(?:[.,:]\d+)*)(?:st|nd|rd|th)?(?!\w)"
    r"(?:[ \u00a0\u202f-]?([^\W\d_]+[²³]?|[%‰€$£]|°[CF]?))?"
    r"|(?<!\w)([€$£])(\d+(?:[.,]\d+)*)"
)
_SHORT_YEAR: Final = re.compile(r"(\d\d)(\d\d)[-–—/](\d\d)(?!\d)")
_COMPOUND: Final = re.compile(r"newton[ -]met", re.IGNORECASE)
_ATTACHED: Final = re.compile(r"(?<![\w.,:/-])(\d+(?:[.,]\d+)*)([^\W\d_]{1,4}[²³]?)(?!\w)")
_DESIGNATION: Final = re.compile(r"(?<![\w-])(?=[\w-]*[A-ZÄÖÜ])(?=[\w-]*\d)([^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PLACED: Final = frozenset(["in", "aus", "nach", "von", "bei", "durch", "bis"])
"""German words before a name: a noun without an article is seldom behind them."""

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
_WITHIN: Final = " \t\n\u00a0-'\"“„(,"
"""What may stand between two words without a sentence's beginning."""


def _listed(name: str) -> dict[str, str]:
    """Return the first word of each line of a file, by each word of the line."""
    lines = (files("groundline_generator.domain") / name).read_text(encoding="utf-8").splitlines()
    return {word: line.split()[0] for line in lines for word in line.split()}


_UNITS: Final = _listed("units.txt")
_COUNTED: Final = _listed("number_words.txt")


class _Quantity(NamedTuple):
    """A number with what it may mean, since 1,800 is both 1800 and 1.8, and its unit if one is known."""

    shown: str
    values: frozenset[str]
    unit: str | None

    def is_of_value(self, other: "_Quantity") -> bool:
        return not self.values.isdisjoint(other.values)


def contradiction(claim: str, said: Sequence[Statement], language: str | None) -> Contradiction | None:
    """Return the first thing that the statements do not bear out, if the rules find one: a number or unit, a
    designation, a name, or whether it is so at all.

    `said` are all sentences of the passages that the claim cites; `language` that of the claim, if known.
    """
    wanted = frozenset(content_terms(claim, language))
    if not wanted or not said:
        return None
    shares = [_share(wanted, statement.terms) for statement in said]
    best = max(shares)
    nearest = [statement for statement, share in zip(said, shares, strict=True) if share >= best - 0.05]
    everything = " ".join(f"{statement.about} {statement.text}" for statement in said)
    return (
        _wrong_quantity(claim, said, wanted, language, everything)
        or _unknown_designation(claim, nearest[0], everything)
        or (_wrong_name(claim, nearest[0], everything, best, language) if best >= _RECOGNISED else None)
        or (_negated(claim, nearest, language) if best >= _NEARLY_SAID else None)
    )


def _share(wanted: frozenset[str], terms: Iterable[str]) -> float:
    return len(wanted.intersection(terms)) / len(wanted)


def _wrong_quantity(
    claim: str,
    said: Sequence[Statement],
    wanted: frozenset[str],
    language: str | None,
    everything: str,
) -> Contradiction | None:
    held = list(_quantities(everything))
    for quantity in _quantities(claim):
        same = [one for one in held if one.is_of_value(quantity)]
        # A count in words may sum up what a passage enumerates.
        if not (same or quantity.shown in _COUNTED):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
        if same and quantity.unit and all(one.unit not in (None, quantity.unit) for one in same):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
        if _is_of_something_else(quantity, claim, said, wanted, language):
            return Contradiction(error_pb2.NUMBER_NOT_SUPPORTED, quantity.shown)
    return None


def _is_of_something_else(
    quantity: _Quantity,
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
        numbers = list(_quantities(statement.text))
        if any(one.is_of_value(quantity) for one in (*numbers, *_quantities(statement.about))):
            if _replaced_designation(claim, statement):
                continue
            above = content_terms(statement.about, language)
            here = max(here, _share(others, (*statement.terms, *above)))
        elif any(one.unit == quantity.unit for one in numbers):
            elsewhere = max(elsewhere, _share(others, statement.terms))
    return here < _ABOUT_ELSE and elsewhere >= _NEARLY_SAID


def _quantities(text: str) -> Iterator[_Quantity]:
    text = _COMPOUND.sub("newtonmet", _SHORT_YEAR.sub(r"\1\2-\1\3", text))
    for match in _NUMBER.finditer(text):
        number = match.group(1) or match.group(4)
        unit = _UNITS.get((match.group(2) or match.group(3) or "").casefold())
        yield _Quantity(match.group().strip() if unit else number, _values(number), unit)
    for match in _ATTACHED.finditer(text):
        if unit := _UNITS.get(match.group(2).casefold()):
            yield _Quantity(match.group(), _values(match.group(1)), unit)
    for word, following in pairwise((*_WORD.findall(text), "")):
        if value := _COUNTED.get(word.casefold()):
            yield _Quantity(word.casefold(), frozenset((value,)), _UNITS.get(following.casefold()))


def _values(number: str) -> frozenset[str]:
    """Return the readings of a number's points and commas: as decimals, and as marks of thousands."""
    if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", number):
        return frozenset((re.sub(r"[.,]", "", number), _decimal(number)))
    return frozenset((_decimal(number),))


def _decimal(number: str) -> str:
    whole, mark, rest = number.replace(",", ".").rpartition(".")
    if not mark:
        return rest.lstrip("0") or "0"
    # Of a number such as 1.234,5 only the last mark is of decimals; a version or a date keeps its points.
    if whole.count(".") and len(set(re.findall(r"[.,]", number))) == 2:
        whole = whole.replace(".", "")
    rest = rest.rstrip("0") if "." not in whole else rest
    return f"{whole.lstrip('0') or '0'}.{rest}".rstrip(".")


def _unknown_designation(claim: str, nearest: Statement, everything: str) -> Contradiction | None:
    known = _designations(everything)
    unknown = (shown for shown, key in _designated(claim) if key not in known)
    shown = next(unknown, None) or _replaced_designation(claim, nearest)
    return Contradiction(error_pb2.NAME_NOT_SUPPORTED, shown) if shown else None


def _replaced_designation(claim: str, statement: Statement) -> str | None:
    """Return a designation in whose place a statement has another; one of another form, such as a rule's
    number beside a type, is not in its place."""
    near = _designations(f"{statement.about} {statement.text}")
    forms = frozenset(map(_form, near))
    return next((shown for shown, key in _designated(claim) if key not in near and _form(key) in forms), None)


def _designated(text: str) -> Iterator[tuple[str, str]]:
    for match in _DESIGNATION.finditer(text):
        attached = _ATTACHED.fullmatch(match.group())
        if attached is None or attached.group(2).casefold() not in _UNITS:
            yield match.group(), match.group().replace("-", "").casefold()


def _designations(text: str) -> frozenset[str]:
    joined = re.sub(r"(?<=[A-ZÄÖÜ]) (?=\d)", "", text)
    return frozenset(key for written in (text, joined) for _, key in _designated(written))


def _form(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _wrong_name(
    claim: str, nearest: Statement, everything: str, share: float, language: str | None
) -> Contradiction | None:
    """Find a name that no passage has: in what is nearly a sentence of theirs, or in another name's place."""
    words = frozenset(_beginning(word) for word in _WORD.findall(everything))
    spoken = frozenset(_beginning(word) for word in _WORD.findall(claim))
    missing = next((name for name in _names(claim, language) if _beginning(name) not in words), None)
    replaced = any(_beginning(name) not in spoken for name in _names(nearest.text, language))
    if missing is None or not (replaced or share >= _NEARLY_SAID):
        return None
    return Contradiction(error_pb2.NAME_NOT_SUPPORTED, missing)


def _names(text: str, language: str | None) -> Iterator[str]:
    """Yield words written with a capital where nothing but a name asks for it; in German, where each noun has
    one, those behind another such word or a preposition of place."""
    for before, token in pairwise(_WORD.finditer(text)):
        word, previous = token.group(), before.group()
        if not word[0].isupper() or len(word) < 3 or text[before.end() : token.start()].strip(_WITHIN):
            continue
        if language == "english" or previous in _PLACED:
            yield word


def _beginning(word: str) -> str:
    return word.casefold()[:4]


def _negated(claim: str, nearest: Sequence[Statement], language: str | None) -> Contradiction | None:
    """Find a claim that denies what each of the nearest sentences says, or says what each of them denies."""
    found = ""
    for statement in nearest:
        found = _denied(claim, statement.text, language) or _denied(statement.text, claim, language)
        if not found:
            return None
    return Contradiction(error_pb2.CONTRADICTED_SENTENCE, found)


def _denied(denying: str, saying: str, language: str | None) -> str:
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
