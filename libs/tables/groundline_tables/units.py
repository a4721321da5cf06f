"""Units of numbers, and their conversion."""

import re
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any, Final

from groundline_tables.data import words_in

_WORDS: Final = words_in("values")
_CURRENCIES: Final[dict[str, str]] = _WORDS["currencies"]
_CODES: Final = frozenset(_WORDS["currency_codes"]["codes"])
_SPELLED: Final[dict[str, str]] = _WORDS["units"]
# Only a text of this form goes to pint, which computes any expression.
_UNIT: Final = re.compile(r"[^\W\d_°µμΩ]{1,16}[²³]?(?:/[^\W\d_]{1,8}[²³]?)?|[°µμΩ][^\W\d_]{0,4}|\"")

_LOADING: Final = Lock()


def currency_of(text: str) -> str:
    """Return the code of a currency by its sign, name or code; "" if it is none."""
    text = text.strip()
    return text if text in _CODES else _CURRENCIES.get(text.lower(), "")


def is_currency(unit: str) -> bool:
    return unit in _CODES


@cache
def is_unit(text: str) -> bool:
    """Tell whether a text is a currency, per cent or a unit of measure."""
    return bool(text == "%" or currency_of(text) or _measure(text) is not None)


def spelled(text: str) -> str:
    """Return a unit as columns have it: a currency by its code, others as they are written."""
    return currency_of(text) or text.strip()


def convert(number: Decimal, unit: str, to: str) -> Decimal | None:
    """Return a number of one unit in another; None if there is no way."""
    if spelled(unit) == spelled(to):
        return number
    if is_currency(spelled(unit)) or is_currency(spelled(to)):
        return None
    source, target = _measure(unit), _measure(to)
    if source is None or target is None or source.dimensionality != target.dimensionality:
        return None
    converted = _registry().Quantity(float(number), source).to(target).magnitude
    return Decimal(f"{converted:.12g}")


def same_unit(first: str, second: str) -> bool:
    """Tell whether two spellings are of one unit."""
    if spelled(first) == spelled(second):
        return True
    measures = _measure(first), _measure(second)
    return None not in measures and measures[0] == measures[1]


@cache
def _measure(text: str) -> Any:
    """Return a unit of measure; None if it is none that is known."""
    text = text.strip()
    if text not in _SPELLED and not _UNIT.fullmatch(text):
        return None
    registry = _registry()
    for name in (text, text.removesuffix(".")):
        try:
            return registry.parse_units(_SPELLED.get(name, name.replace("²", "**2").replace("³", "**3")))
        except Exception:  # noqa: S112 - pint and its parser raise many kinds
            continue
    return None


def _registry() -> Any:
    """Return pint's units, which take a third of a second to load.

    Units of two registries cannot be compared, so threads that ask at once must get the same one.
    """
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)
