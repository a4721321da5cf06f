"""Refusals: answers that say that the passages hold none."""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from groundline_language import guess_language

from groundline_generator.domain.prompting import NO_ANSWER_MARKER

_LANGUAGES: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (files("groundline_generator.domain") / "refusals.toml").read_text(encoding="utf-8")
)
_SENTENCES: Final = {language: words["sentence"] for language, words in _LANGUAGES.items()}
_PHRASES: Final = re.compile(
    "|".join(words["phrases"] for words in _LANGUAGES.values()), re.IGNORECASE | re.VERBOSE
)

_DECORATION: Final = "\n\r\t *_`\"'#>:.-"
"""Characters that models put around the marker."""

_MAX_LEAD_CHARACTERS: Final = 40

_LONGEST_REFUSAL_CHARACTERS: Final = 400


def refusal(query: str) -> str:
    """Return the sentence that refuses a question, in its language if it is known, else in English."""
    return _SENTENCES.get(guess_language(query) or "", _SENTENCES["english"])


def reads_like_refusal(answer: str, *, cited: bool) -> bool:
    """Tell whether a short answer that cites nothing says that it has no answer, in a language of
    refusals.toml."""
    return not cited and len(answer) <= _LONGEST_REFUSAL_CHARACTERS and bool(_PHRASES.search(answer))


class RefusalFilter:
    """Filter that removes the marker of a refusal from the beginning of a stream, however it is cut."""

    def __init__(self) -> None:
        self._lead: str | None = ""
        self.refused = False

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that may be sent on. The beginning is held until it is
        known."""
        if self._lead is None:
            return text
        lead = self._lead + text
        begun = lead.lstrip(_DECORATION)
        if not self.refused and begun.startswith(NO_ANSWER_MARKER):
            self.refused = True
            lead = begun.removeprefix(NO_ANSWER_MARKER)
            begun = lead.lstrip(_DECORATION)
        if self.refused:
            # Decoration of the marker, until words follow it.
            self._lead = None if begun else ""
            return begun
        if len(lead) < _MAX_LEAD_CHARACTERS and NO_ANSWER_MARKER.startswith(begun):
            self._lead = lead
            return ""
        self._lead = None
        return lead

    def finish(self) -> str:
        """Return the rest when the stream has ended."""
        text, self._lead = self._lead or "", None
        return text
