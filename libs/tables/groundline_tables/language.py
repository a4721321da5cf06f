"""Words of questions to tables, as data for each language."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, Literal

from groundline.v1 import table_pb2
from groundline_lexical import stems

from groundline_tables.data import words_in
from groundline_tables.values import DecimalMark

LANGUAGES: Final = ("english", "german")

MOMENT: Final = "moment"
"""Property of columns that say when: days, or years as numbers."""

type MarkKind = Literal[
    "function",
    "superlative",
    "compare",
    "between",
    "group",
    "property",
    "and",
    "or",
    "than",
    "listed",
    "distinct",
    "only",
    "not",
    "refused",
]

_OPERATORS: Final[Mapping[str, table_pb2.TableOperator.ValueType]] = {
    "less": table_pb2.TABLE_OPERATOR_LESS,
    "at_most": table_pb2.TABLE_OPERATOR_AT_MOST,
    "greater": table_pb2.TABLE_OPERATOR_GREATER,
    "at_least": table_pb2.TABLE_OPERATOR_AT_LEAST,
    "equal": table_pb2.TABLE_OPERATOR_EQUAL,
}
_WORD: Final = re.compile(r"[^\W_]+")
# Between the words of "BodyStyle" and "HTTPServer".
_HUMP: Final = re.compile(r"(?<=[a-zäöü])(?=[A-ZÄÖÜ])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Mark:
    """A meaning of a phrase. `property`: the property of the columns that it speaks of, "" for any."""

    kind: MarkKind
    property: str = ""
    function: table_pb2.TableFunction.ValueType = table_pb2.TABLE_FUNCTION_UNSPECIFIED
    operator: table_pb2.TableOperator.ValueType = table_pb2.TABLE_OPERATOR_UNSPECIFIED
    is_descending: bool = False
    is_of_two: bool = False
    """Whether it says which of two rows is meant, as "heavier" does."""
    is_of_time: bool = False
    """Whether it compares days and years alone, as "before" does."""
    is_of_count: bool = False
    """Whether it may be about how many rows there are, as "most" and "how often" are."""
    is_ordinal: bool = False
    """Whether it may also be about the order of the rows, as "first" is."""


@dataclass(frozen=True, slots=True)
class Language:
    """Words of a language."""

    name: str
    decimal: DecimalMark
    fillers: frozenset[str]
    prepositions: frozenset[str]
    """Words that are not taken for the name of a column, even where one is called so."""
    refused: frozenset[str]
    compounds: Mapping[str, Mark]
    """Meanings of words that begin a compound, such as "gesamt" of "Gesamtpreis"."""
    phrases: Mapping[str, tuple[Mark, ...]]
    """Meanings of each phrase that has any."""
    stems: Mapping[str, tuple[Mark, ...]]
    """Properties by the stems of their words."""
    nouns: Mapping[str, tuple[str, ...]]
    """Nouns of each property."""
    columns: Mapping[str, tuple[str, ...]]
    """Names of columns of each property that say more than the property itself: a rider is a person."""
    verbs: frozenset[str]
    """Words that ask for nothing unless a column is called so."""
    attached: frozenset[str]
    """Words that add nothing to the name of a column before them."""
    says: Mapping[str, str]
    """Words of answers."""

    @property
    def empty(self) -> frozenset[str]:
        """Words that ask for nothing where no column is called so."""
        return self.fillers | self.verbs


@cache
def language_of(name: str) -> Language:
    """Return the words of one of LANGUAGES."""
    data = words_in(name)
    phrases: dict[str, tuple[Mark, ...]] = {}
    marks = [(phrase.casefold(), mark) for phrase, mark in _marks(data)]
    for phrase, mark in marks:
        phrases[phrase] = (*phrases.get(phrase, ()), mark)
    stemmed: dict[str, tuple[Mark, ...]] = {}
    for phrase, mark in marks:
        if mark.kind == "property":
            stemmed[stem(phrase, name)] = (*stemmed.get(stem(phrase, name), ()), mark)
    return Language(
        name,
        "." if name == "english" else ",",
        frozenset(map(str.casefold, data["fillers"])),
        frozenset(data["prepositions"]),
        frozenset(map(str.casefold, data["refused"])),
        {
            word: Mark("function", function=_function(name))
            for name, words in data.get("compounds", {}).items()
            for word in words
        },
        phrases,
        stemmed,
        {name: tuple(map(str.casefold, words["nouns"])) for name, words in data["concepts"].items()},
        {name: tuple(words.get("columns", ())) for name, words in data["concepts"].items()},
        frozenset(data["verbs"]),
        frozenset(data["attached"]),
        data["says"],
    )


def words_of(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case, without marks between them."""
    return _WORD.findall(text.casefold())


def words_of_name(text: str) -> list[str]:
    """Return the words of a name that programs may have made, such as "TopSpeed_KmH"."""
    return words_of(_HUMP.sub(" ", text))


@cache
def stem(word: str, language: str) -> str:
    """Return the stem of a word in lower case."""
    return stems(word, language)


def _function(name: str) -> table_pb2.TableFunction.ValueType:
    return table_pb2.TableFunction.Value(f"TABLE_FUNCTION_{name.upper()}")


def _marks(data: Mapping[str, Any]) -> Iterable[tuple[str, Mark]]:
    functions, superlatives = data["functions"], data["superlatives"]
    comparators = dict(data["comparators"])
    yield from ((phrase, Mark("between")) for phrase in comparators.pop("between"))
    yield from ((phrase, Mark("and")) for phrase in data["and"])
    yield from ((phrase, Mark("or")) for phrase in data["or"])
    kinds: tuple[MarkKind, ...] = ("than", "listed", "distinct", "only", "not")
    yield from ((phrase, Mark(kind)) for kind in kinds for phrase in data[kind])
    yield from ((phrase, Mark("refused")) for phrase in data["refused"] if " " in phrase)
    yield from ((phrase, Mark("group")) for phrase in data["grouping"]["by"])
    times = Mark("function", function=table_pb2.TABLE_FUNCTION_COUNT, is_of_count=True)
    yield from ((phrase, times) for phrase in data["times"])
    for name, phrases in functions.items():
        yield from ((phrase, Mark("function", function=_function(name))) for phrase in phrases)
    for name, phrases in comparators.items():
        operator = {"before": "less", "after": "greater"}.get(name, name)
        mark = Mark("compare", operator=_OPERATORS[operator], is_of_time=operator != name)
        yield from ((phrase, mark) for phrase in phrases)
    for name, phrases in data["comparatives"].items():
        mark = Mark("superlative", is_descending=name == "more", is_of_two=True)
        yield from ((phrase, mark) for phrase in phrases)
    for name, phrases in superlatives.items():
        mark = Mark(
            "superlative", is_descending=name in {"high", "many"}, is_of_count=name in {"many", "few"}
        )
        yield from ((phrase, mark) for phrase in phrases)
    for name, phrases in data["ordinals"].items():
        mark = Mark("superlative", MOMENT, is_descending=name == "last", is_ordinal=True)
        yield from ((phrase, mark) for phrase in phrases)
    for name, words in data["concepts"].items():
        yield from (
            (phrase, Mark("property", name)) for phrase in chain(words["nouns"], words.get("words", ()))
        )
        for kind in ("high", "low"):
            mark = Mark("superlative", name, is_descending=kind == "high")
            yield from ((phrase, mark) for phrase in words.get(kind, ()))
        for kind, operator in (("more", "greater"), ("less", "less")):
            mark = Mark("compare", name, operator=_OPERATORS[operator])
            of_two = Mark("superlative", name, is_descending=kind == "more", is_of_two=True)
            for phrase in words.get(kind, ()):
                yield phrase, mark
                yield phrase.rpartition(" ")[0], of_two
