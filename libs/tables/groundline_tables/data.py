"""Words as data: files of TOML in `words`."""

from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any


@cache
def words_in(name: str) -> dict[str, Any]:
    """Return the words of a file: "values", or a language."""
    return loads((files("groundline_tables") / "words" / f"{name}.toml").read_text(encoding="utf-8"))
