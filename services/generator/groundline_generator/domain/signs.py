"""Signs that a paraphrase keeps: numbers with their units, designations, and names."""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import pairwise, product
from typing import Final, NamedTuple

from groundline_language.concepts import is_known
from groundline_language.terms import content_terms

_NUMBER: Final = re.compile(
    r"(?:(?<![\w.,:/$€£-])|(?<=\d[-–—/]))(\d+(?:[.,:]\d+)*)(?:st|nd|rd|th)?(?!\w)"
    r"(?:[ \u00a0\u202f-]?([^\W\d_]+[²³]?|[%‰€$£]|°[CF]?))?"
    r"|(?<!\w)([€$£])(\d+(?:[.,]\d+)*)"
)
_SHORT_YEAR: Final = re.compile(r"(\d\d)(\d\d)[-–—/](\d\d)(?![-\d])")
_COMPOUND: Final = re.compile(
    r"(newton)[ -](?=met)|\b(?:degrees?|grad)[ -](?=celsius|fahrenheit)", re.IGNORECASE
)
_ATTACHED: Final = re.compile(r"(?<![\w.,:/-])(\d+(?:[.,]\d+)*)([^\W\d_]{1,4}[²³]?)(?!\w)")
_DESIGNATION: Final = re.compile(r"(?<![\w-])(?=[\w-]*[A-ZÄÖÜ])(?=[\w-]*\d)([^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_LABEL: Final = re.compile(r"\b(?:[^\W\d_]{3,} [A-HJ-Z]|[A-ZÄÖÜ][^\W\d_]{2,} \d{1,3})\b(?![.,:]\d)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_POUNDS: Final = frozenset(("£", "lb"))
_PLACED: Final = frozenset(["in", "aus", "nach", "von", "bei", "durch", "bis"])
"""German words before a name: a noun without an article is seldom behind them."""

_TENS: Final = frozenset(map(str, range(20, 100, 10)))

_WITHIN: Final = " \t\n\u00a0-'\"“„(,"
"""Characters that may stand between two words of one sentence."""


def _listed(name: str) -> dict[str, str]:
    """Return the first word of each line of a file, by each word of the line."""
    lines = (files("groundline_generator.domain") / name).read_text(encoding="utf-8").splitlines()
    return {word: line.split()[0] for line in lines for word in line.split()}


def _compounds(listed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield numbers from 21 to 99 by their words: "forty-eight", "achtundvierzig"."""
    ones = {"one": "1", "ein": "1"} | {word: value for word, value in listed.items() if len(value) == 1}
    for ten, one in product((word for word in listed if listed[word] in _TENS), ones):
        if not (ten.isdigit() or one.isdigit()):
            value = f"{listed[ten][0]}{ones[one]}"
            yield f"{ten}-{one}", value
            yield f"{one}und{ten}", value


UNITS: Final = _listed("units.txt")
_LISTED: Final = _listed("number_words.txt")
COUNTED: Final = _LISTED | dict(_compounds(_LISTED))


class Quantity(NamedTuple):
    """A number with what it may mean, since 1,800 is both 1800 and 1.8, and its unit if one is known."""

    shown: str
    values: frozenset[str]
    unit: str | None

    def is_of_value(self, other: "Quantity") -> bool:
        return not self.values.isdisjoint(other.values)

    def is_of_unit(self, other: "Quantity") -> bool:
        """Tell whether both may be of one unit; pounds are money as well as a weight."""
        return (
            None in (self.unit, other.unit) or self.unit == other.unit or {self.unit, other.unit} == _POUNDS
        )


def full_years(text: str) -> str:
    """Return a text with both years of a range in full: 2018–2019 for 2018–19."""
    return _SHORT_YEAR.sub(r"\1\2–\1\3", text)


def quantities(text: str) -> Iterator[Quantity]:
    """Yield numbers in digits with their units, then small ones in words, each kind in the text's order."""
    text = _COMPOUND.sub(r"\1", full_years(text))
    for match in _NUMBER.finditer(text):
        number = match.group(1) or match.group(4)
        unit = UNITS.get((match.group(2) or match.group(3) or "").casefold())
        yield Quantity(match.group().strip() if unit else number, _values(number), unit)
    for match in _ATTACHED.finditer(text):
        if unit := UNITS.get(match.group(2).casefold()):
            yield Quantity(match.group(), _values(match.group(1)), unit)
    for word, following in pairwise((*_WORD.findall(text), "")):
        if value := COUNTED.get(word.casefold()):
            yield Quantity(word.casefold(), frozenset((value,)), UNITS.get(following.casefold()))


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


def designated(text: str) -> Iterator[tuple[str, str]]:
    """Yield designations of letters and digits, such as DN-4, as written and as they are compared."""
    for match in _DESIGNATION.finditer(text):
        attached = _ATTACHED.fullmatch(match.group())
        if attached is None or attached.group(2).casefold() not in UNITS:
            yield match.group(), match.group().replace("-", "").casefold()


def designation_form(key: str) -> str:
    """Return what designations of one form share, as DN-4 and DN-6 do."""
    return re.sub(r"\d+", "#", key)


def designations(text: str) -> frozenset[str]:
    """Return designations as they are compared, DN 4 as DN-4."""
    joined = re.sub(r"(?<=[A-ZÄÖÜ]) (?=\d)", "", text)
    return frozenset(key for written in (text, joined) for _, key in designated(written))


def names(text: str, language: str | None) -> Iterator[str]:
    """Yield words written with a capital that no sentence begins with; in German, where each noun has one,
    only those behind a preposition of place."""
    for before, token in pairwise(_WORD.finditer(text)):
        word, previous = token.group(), before.group()
        if not word[0].isupper() or len(word) < 3 or text[before.end() : token.start()].strip(_WITHIN):
            continue
        if language == "english" or previous in _PLACED:
            yield word


def german_names(text: str) -> Iterator[str]:
    """Yield words of a German text that are in capitals, or have one beside another word that has: nouns
    mostly stand alone, the parts of a name side by side. Common words are left out."""
    tokens = list(_WORD.finditer(text))
    # An article at the beginning of a sentence has a capital, too.
    capital = [each.group()[0].isupper() and any(content_terms(each.group(), "german")) for each in tokens]
    joined = [text[one.end() : other.start()] in (" ", "-") for one, other in pairwise(tokens)]
    beside = [all(each) for each in zip(joined, capital, capital[1:], strict=False)]
    for token, before, after in zip(tokens, (False, *beside), (*beside, False), strict=False):
        word = token.group()
        is_name = before or after or word.isupper()
        if is_name and word[0].isupper() and len(word) >= 3 and not is_known(word, "german"):
            yield word


def mentions(text: str, language: str | None) -> Iterator[str]:
    """Yield designations, labels such as "class B" and "Frigor 9", and names, of which those side by side are
    one."""
    yield from (written for written, _ in designated(text))
    yield from (match.group() for match in _LABEL.finditer(text))
    run, end = "", 0
    for name in names(text, language):
        start = text.find(name, end)
        if run and text[end:start] == " ":
            run += f" {name}"
        else:
            if run:
                yield run
            run = name
        end = start + len(name)
    if run:
        yield run


def beginning(word: str) -> str:
    """Return what forms of a name share: Iran, Iranian."""
    return word.casefold()[:4]


def words(text: str) -> frozenset[str]:
    """Return the beginnings of all words, to look names up in."""
    return frozenset(map(beginning, set(_WORD.findall(text))))
