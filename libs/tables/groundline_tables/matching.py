"""Meanings of a question's words in a table: columns, cells, numbers, and what is asked of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

from groundline.v1 import table_pb2

from groundline_tables.columns import label_of
from groundline_tables.data import words_in
from groundline_tables.language import (
    LANGUAGES,
    MOMENT,
    Language,
    Mark,
    language_of,
    stem,
    words_of,
    words_of_name,
)
from groundline_tables.units import convert, is_currency, is_unit, same_unit, spelled
from groundline_tables.values import EDGES, date_of, folded_text, number_of, read_number

MAX_WORDS: Final = 40
"""Maximum words of a question; of a longer one no plan is made."""

MAX_PHRASE_WORDS: Final = 8
"""Maximum words of a cell that a question names."""

_SHORTEST_INFLECTED: Final = 5
_SHORTEST_PART: Final = 4
_CACHED_LABELS: Final = 8192
_SHORTEST_NAME: Final = 3
_ENDINGS: Final[Mapping[str, Sequence[str]]] = {
    "english": ("s", "es", "'s", "’s"),
    "german": ("s", "es", "e", "en", "n", "er"),
}
_MEASURES: Final = frozenset("$€£%")
_OF: Final = frozenset({"of", "per", "von", "der", "des", "pro", "je"})
_TOKEN: Final = re.compile(r"\S+")
_VALUES: Final = words_in("values")
_PROPERTY_UNITS: Final[Mapping[str, str]] = _VALUES["properties"]
_NAMING: Final = frozenset(_VALUES["naming"])
_NUMBERING: Final = frozenset(_VALUES["numbering"])
_CALENDAR: Final = frozenset(_VALUES["calendar"])
_MULTIPLES: Final[Mapping[str, int]] = _VALUES["multiples"]


class Known(NamedTuple):
    """A table, and the columns that hold cells which a question names, by the cell as texts are compared."""

    table: table_pb2.Table
    values: Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a question: as they are written, and in lower case."""

    written: tuple[str, ...]
    folded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """A meaning of some words: one of the fields besides the words.

    `columns`: those that they name, or speak of with what they ask; `cells`: columns in which a cell is
    `value`; `number` in `unit`, or the unit alone; `date` as conditions have it; `marks`: what they ask.
    `is_title`: they name the table or its document, also if they are a cell.
    """

    text: str
    columns: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()
    value: str = ""
    number: Decimal | None = None
    unit: str = ""
    date: str = ""
    marks: tuple[Mark, ...] = ()
    is_title: bool = False
    is_kind: bool = False
    """Whether the words say what the columns are of, not what they are called: "who" of "Driver"."""
    is_inflected: bool = False
    """Whether the columns are called otherwise than the word, as "Locomotive" is by "locomotives"."""
    is_modifier: bool = False
    """Whether the word is part of the columns' names, not what they name: "hospital" of "Hospital beds"."""

    def mark(self, *kinds: str) -> Mark | None:
        """Return what the words ask, if it is of one of these kinds."""
        return next((mark for mark in self.marks if mark.kind in kinds), None)


def naming_column(table: table_pb2.Table) -> int | None:
    """Return the column that names the rows: the first of texts with a head such as "Name", else the first of
    texts that neither ranks nor numbers the rows, else the first of texts; None without any."""
    texts = [column for column in table.columns if column.type == table_pb2.COLUMN_TYPE_TEXT]
    heads = [(column.index, words_of_name(column.name)) for column in texts]
    called = [index for index, words in heads if _NAMING.intersection(words[-1:])]
    telling = [
        column.index
        for column in texts
        if column.name and not is_numbering(column) and not _MEASURES.intersection(column.name)
    ]
    return next(iter([*called, *telling, *(column.index for column in texts)]), None)


def is_calendar(column: table_pb2.TableColumn) -> bool:
    """Tell whether the numbers of a column are years or the like, which are counted and not added."""
    return bool(_CALENDAR.intersection(words_of_name(column.name)[-1:]))


def is_numbering(column: table_pb2.TableColumn) -> bool:
    """Tell whether a column numbers or ranks the rows: the highest rank is the lowest number."""
    words = words_of_name(column.name)
    return "#" in column.name or bool(_NUMBERING.intersection(words[-1:]))


def split(question: str) -> Words:
    """Return the words of a question, without the marks around them."""
    written = tuple(word for token in _TOKEN.findall(question) if (word := _bare(token)))
    return Words(written, tuple(word.casefold() for word in written))


def phrases_of(question: str) -> list[str]:
    """Return the cells that a question may name, as texts are compared: its words, as they are and without
    endings, up to MAX_PHRASE_WORDS in a row."""
    words = split(question)
    if len(words.folded) > MAX_WORDS:
        return []
    found: dict[str, None] = {}
    for begin in range(len(words.folded)):
        for end in range(begin + 1, min(begin + MAX_PHRASE_WORDS, len(words.folded)) + 1):
            found.update(dict.fromkeys(_spellings(" ".join(words.folded[begin:end]))))
    return list(found)


def meanings(words: Words, known: Known, language: Language) -> tuple[list[Meaning], list[str]]:
    """Return what the words mean, in their order, and the words that mean nothing. The longest phrase that
    means something counts."""
    found: list[Meaning] = []
    unknown: list[str] = []
    columns = _Columns(known.table, language.name)

    def _means(place: int) -> bool:
        return _meaning(words, place, 1, known, columns, language) is not None

    at = 0
    while at < len(words.folded):
        for size in range(min(MAX_PHRASE_WORDS, len(words.folded) - at), 0, -1):
            meaning = _meaning(words, at, size, known, columns, language)
            if meaning is not None:
                found.append(meaning)
                at += size
                break
        else:
            if " ".join(words.folded[at : at + 2]) in language.empty and not _means(at + 1):
                at += 2
                continue
            parts = _of_compound(words.written[at], columns, language)
            found += parts
            is_attached = bool(found) and bool(found[-1].columns) and words.folded[at] in language.attached
            if not parts and not is_attached and words.folded[at] not in language.empty:
                unknown.append(words.written[at])
            at += 1
    return found, unknown


def _of_compound(word: str, columns: "_Columns", language: Language) -> list[Meaning]:
    """Return what the parts of a compound mean, if all of them mean something: "LEGO-Sets" a title,
    "Gesamtpreis" a function and a column."""
    folded = word.casefold()
    for prefix, mark in language.compounds.items():
        rest = folded.removeprefix(prefix)
        if rest != folded and (named := columns.named(rest) or columns.of_noun(rest, language)):
            return [Meaning(prefix, marks=(mark,)), Meaning(rest, columns=named)]
    parts = folded.split("-")
    if len(parts) == 1 or not all(parts):
        return []
    *titles, last = parts
    if not all(map(columns.is_title, titles)):
        return []
    if columns.is_title(last):
        return [Meaning(word, is_title=True)]
    named = columns.named(last) or columns.of_noun(last, language)
    return [Meaning(word, columns=named)] if named else []


class _Columns:
    """Names of a table's columns, by which questions name them."""

    def __init__(self, table: table_pb2.Table, language: str) -> None:
        self._table = table
        self._language = language
        self._labels = [_label(column.name) for column in table.columns]
        self._stems = [tuple(stem(word, language) for word in label) for label in self._labels]
        self._wholes: dict[tuple[str, ...], tuple[int, ...]] = {}
        for index, stems in enumerate(self._stems):
            if stems:
                self._wholes[stems] = (*self._wholes.get(stems, ()), index)
        self._found: dict[str, frozenset[int]] = {}
        self._properties: dict[str, tuple[int, ...]] = {}
        titles = (
            table.title,
            table.name,
            table.sheet,
            re.sub(r"\.\w{1,5}$", "", table.uri.rpartition("/")[2]),
        )
        self._titles = {stem(word, language) for title in titles for word in words_of_name(title)}

    def named(self, text: str) -> tuple[int, ...]:
        """Return the columns of this name; else those that have it in theirs."""
        wanted = self._stems_of(text)
        if not wanted:
            return ()
        if whole := self._wholes.get(wanted):
            return whole
        return tuple(sorted(frozenset.intersection(*map(self._having, wanted))))

    def has_words(self, text: str, columns: Sequence[int]) -> bool:
        """Tell whether words are in a name of the columns in this very form."""
        return any(set(words_of(text)).issubset(self._labels[column]) for column in columns)

    def is_modifier(self, word: str, columns: Sequence[int]) -> bool:
        """Tell whether a word of the columns' names is nowhere the last before "of" or a bracket."""
        wanted = stem(word, self._language)

        def head(column: int) -> str:
            words = words_of_name(self._table.columns[column].name.partition("(")[0])
            before = next((words[:at] for at, word in enumerate(words) if at and word in _OF), words)
            return stem(before[-1], self._language) if before else ""

        return not any(_is_part(wanted, [head(column)]) for column in columns)

    def whole(self, text: str) -> tuple[int, ...]:
        """Return the columns of exactly this name."""
        return self._wholes.get(self._stems_of(text), ())

    def _having(self, word: str) -> frozenset[int]:
        """Return the columns that have a word in their name. It is looked for once: a question has few words,
        in many phrases."""
        if word not in self._found:
            named = (index for index, stems in enumerate(self._stems) if _is_part(word, stems))
            self._found[word] = frozenset(named)
        return self._found[word]

    def of_property(self, name: str) -> tuple[int, ...]:
        """Return the columns of a property: by its nouns in any language, else by its unit."""
        if name not in self._properties:
            self._properties[name] = self._of_property(name)
        return self._properties[name]

    def _of_property(self, name: str) -> tuple[int, ...]:
        languages = list(map(language_of, LANGUAGES))
        found = self._called({noun for each in languages for noun in each.nouns.get(name, ())})
        found = found or self._called({noun for each in languages for noun in each.columns.get(name, ())})
        if name == MOMENT:
            kinds = {index: self._table.columns[index].type for index in found}
            numbers = tuple(index for index in found if kinds[index] == table_pb2.COLUMN_TYPE_NUMBER)
            return self._dates or numbers
        unit = _PROPERTY_UNITS.get(name, "")
        return found or tuple(
            column.index
            for column in self._table.columns
            if unit and column.unit and _is_of_unit(column.unit, unit)
        )

    @property
    def _dates(self) -> tuple[int, ...]:
        return tuple(
            column.index for column in self._table.columns if column.type == table_pb2.COLUMN_TYPE_DATE
        )

    def _called(self, nouns: AbstractSet[str]) -> tuple[int, ...]:
        """Return the columns that are called by one of these nouns; else those whose last word it is."""
        whole = tuple(
            index for index, label in enumerate(self._labels) if len(label) == 1 and label[0] in nouns
        )
        # The last word says what it is: a "unit price", but no "head of state".
        return whole or tuple(
            index
            for index, label in enumerate(self._labels)
            if label and not _OF.intersection(label) and any(_is_part(noun, label[-1:]) for noun in nouns)
        )

    def of_noun(self, word: str, language: Language) -> tuple[int, ...]:
        """Return the columns of the property that a word speaks of."""
        return self.of_marks(language.stems.get(stem(word, language.name), ()))

    def of_marks(self, marks: Sequence[Mark]) -> tuple[int, ...]:
        """Return the columns of the first of some properties that has any."""
        found = (self.of_property(mark.property) for mark in marks)
        return next((columns for columns in found if columns), ())

    def has_unit(self, text: str) -> bool:
        return is_unit(text) and any(
            column.unit and same_unit(text, column.unit) for column in self._table.columns
        )

    def is_title(self, text: str) -> bool:
        words = self._stems_of(text)
        return self._titles.issuperset(words) and not all(map(str.isdecimal, words))

    def _stems_of(self, text: str) -> tuple[str, ...]:
        return tuple(stem(word, self._language) for word in words_of(text))


def _meaning(
    words: Words, at: int, size: int, known: Known, columns: _Columns, language: Language
) -> Meaning | None:
    text = " ".join(words.written[at : at + size])
    folded = " ".join(words.folded[at : at + size])
    marks = language.phrases.get(folded, ())
    is_named = len(folded) >= _SHORTEST_NAME and folded not in language.prepositions
    if is_named and (whole := columns.whole(folded)):
        is_inflected = not columns.has_words(folded, whole)
        return Meaning(text, columns=whole, cells=_cells(known, folded)[1], is_inflected=is_inflected)
    if any(mark.kind != "property" for mark in marks):
        of_property = columns.of_property(marks[0].property) if marks[0].property else ()
        return (
            Meaning(text, marks=marks, columns=of_property) if of_property or not marks[0].property else None
        )
    is_filler = size == 1 and folded in language.fillers
    if not is_filler and (named := columns.named(folded)):
        is_modifier = size == 1 and columns.is_modifier(folded, named)
        return Meaning(
            text,
            columns=named,
            cells=_cells(known, folded)[1],
            is_inflected=not columns.has_words(folded, named),
            is_modifier=is_modifier,
        )
    value, cells = _cells(known, folded)
    if cells and not is_filler:
        measured = _number(words, at, size, language) if size == 1 else None
        return Meaning(
            text,
            cells=cells,
            value=text if folded_text(text) == value else value,
            number=measured.number if measured else None,
            is_title=columns.is_title(folded),
        )
    if size == 1 and not is_filler and folded not in language.refused and columns.is_title(folded):
        return Meaning(text, is_title=True)
    of_property = columns.of_marks(marks) if marks else columns.of_noun(folded, language)
    if of_property:
        return Meaning(text, columns=of_property, is_kind=True)
    if size <= 3 and (measured := _number(words, at, size, language)):
        return measured
    if size <= 2 and not is_filler and len(text) > 1 and columns.has_unit(text):
        return Meaning(text, unit=spelled(text))
    if size <= 3 and (date := date_of(text)):
        return Meaning(text, date=date.strftime("%Y-%m-%d"))
    return None


def _cells(known: Known, folded: str) -> tuple[str, tuple[int, ...]]:
    for spelling in _spellings(folded):
        if columns := known.values.get(spelling):
            return spelling, tuple(sorted(columns))
    return "", ()


def _number(words: Words, at: int, size: int, language: Language) -> Meaning | None:
    text = " ".join(words.written[at : at + size])
    if size > 1 and (times := _MULTIPLES.get(words.folded[at + 1])):
        first = _number(words, at, 1, language)
        unit = spelled(words.written[at + 2]) if size > 2 else ""
        if first is None or first.number is None or first.unit or (unit and not is_unit(unit)):
            return None
        return Meaning(text, number=first.number * times, unit=unit)
    if size > 2:
        return None
    written = read_number(text)
    is_two = size == 2 and words.folded[at + 1] not in language.fillers
    if written is None or (size == 2 and not (is_two and is_unit(written.unit))):
        return None
    number = number_of(written, language.decimal)
    return None if number is None else Meaning(text, number=number, unit=written.unit)


def _spellings(phrase: str) -> Iterator[str]:
    yield folded_text(phrase)
    for ending in dict.fromkeys(ending for endings in _ENDINGS.values() for ending in endings):
        if phrase.endswith(ending) and len(phrase) - len(ending) >= _SHORTEST_INFLECTED - 1:
            yield folded_text(phrase.removesuffix(ending))


@lru_cache(_CACHED_LABELS)
def _label(name: str) -> tuple[str, ...]:
    """Return the words of a column's name without its unit."""
    return tuple(words_of_name(label_of(name)[0]))


def _is_part(word: str, of: Sequence[str]) -> bool:
    """Tell whether a word is one of others, or the end of a compound: "gewicht" of "nettogewicht"."""
    return any(word == other or (len(word) >= _SHORTEST_PART and other.endswith(word)) for other in of)


def _is_of_unit(unit: str, wanted: str) -> bool:
    if wanted == "currency":
        return is_currency(unit)
    return convert(Decimal(1), unit, wanted) is not None


def _bare(token: str) -> str:
    return token.strip(EDGES)
