"""Measures that comparisons ask for ("cheaper": money), and their values in texts, in English and German."""

import re
import tomllib
from collections.abc import Collection
from importlib.resources import files
from typing import Final, NamedTuple

from groundline_generator.domain.signs import COUNTED, UNITS


class _Measure(NamedTuple):
    words: re.Pattern[str]
    units: re.Pattern[str] | None
    values: re.Pattern[str]


def _measure(words: str, units: list[str], values: str = "") -> _Measure:
    written = "|".join(re.escape(each) for each, unit in UNITS.items() if unit in units)
    number = rf"\d[\d.,]*[ \u00a0\u202f-]?|\b(?:{'|'.join(COUNTED)})[ -]"
    signs = "".join(re.escape(each) for each in units if each in "€$£")
    found = [
        *([rf"(?:{number})(?:{written})(?!\w)"] if written else []),
        *([rf"[{signs}]\ ?\d"] if signs else []),
        *([rf"(?:{values})(?!\w|[.,:]\d)"] if values else []),
    ]
    flags = re.IGNORECASE | re.VERBOSE
    return _Measure(
        re.compile(rf"\b(?:{words})", flags),
        re.compile(rf"(?<!\w)(?:{written})(?!\w)", re.IGNORECASE) if written else None,
        re.compile(rf"(?<![\w.,:])(?:{'|'.join(found)})", flags),
    )


_MEASURES: Final = {
    name: _measure(**each)
    for name, each in tomllib.loads(
        (files("groundline_generator.domain") / "measures.toml").read_text(encoding="utf-8")
    ).items()
}


def rank(measures: Collection[str]) -> int:
    """Return the place of the first of some measures in their list, in which the telling ones come first."""
    return min((list(_MEASURES).index(each) for each in measures), default=len(_MEASURES))


def asked_measures(query: str) -> dict[str, list[str]]:
    """Return the measures that a comparison may ask for, each with the words that do."""
    found = {name: each.words.findall(query) for name, each in _MEASURES.items()}
    return {name: words for name, words in found.items() if words}


def measured(text: str, measures: Collection[str], *, is_row: bool = False) -> frozenset[str]:
    """Return those of the measures of which a text holds a value; the columns of a row of a table name units,
    or the measure itself."""
    found = {name for name in measures if _MEASURES[name].values.search(text)}
    if is_row and re.search(r"\d", text):
        found |= {name for name in measures if _names_measure(_MEASURES[name], text)}
    return frozenset(found)


def _names_measure(measure: _Measure, text: str) -> bool:
    return bool(measure.words.search(text) or (measure.units and measure.units.search(text)))
