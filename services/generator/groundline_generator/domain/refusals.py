"""Refusals: answers that say that the passages hold none."""

import re
from typing import Final

from groundline_generator.domain.language import guess_language
from groundline_generator.domain.prompting import NO_ANSWER_MARKER

__all__ = ["RefusalFilter", "reads_like_refusal", "refusal"]

_SENTENCES: Final = {
    "english": "I cannot answer this from the documents.",
    "german": "Das kann ich anhand der Dokumente nicht beantworten.",
}

_DECORATION: Final = "\n\r\t *_`\"'#>:.-"
"""Characters that models put around the marker."""

_MAX_LEAD_CHARACTERS: Final = 40

_LONGEST_REFUSAL_CHARACTERS: Final = 400
_PHRASES: Final = re.compile(
    r"""
    \b(?:can\ ?not|can['’]t|could(?:\ not|n['’]t)|unable\ to|not\ able\ to)
      \ (?:be\ )?(?:answer|determin|find|say|tell|locate)
    | \bI\ (?:do\ not|don['’]t)\ (?:know|have\ (?:\w+\ ){0,2}(?:information|details|data|context))
    | \b(?:passages?|documents?|sources?|context|texts?|excerpts?|materials?|information)\b[^.]{0,40}
      \b(?:do(?:es)?\ not|don['’]t|doesn['’]t|did\ not|didn['’]t)\ (?:\w+\ )?
      (?:contain|mention|hold|provide|include|answer|state|say|specify|address|cover|indicate|give|tell|discuss)
    | \b(?:no|not\ enough|insufficient|any)\ (?:\w+\ )?
      (?:information|mention|details?|answer|evidence|context)\b
      [^.]{0,80}\b(?:passages?|documents?|sources?|context|texts?|excerpts?|provided|given|available|found|answer)\b
    | \bthere(?:\ is|\ was|['’]s)\ no\ (?:mention|information)\b
    | \b(?:is|was|are|were)\ not\ (?:\w+\ )?
      (?:mentioned|specified|stated|provided|given|covered|addressed|clear|found|available
      |possible\ to\ (?:say|tell|answer|determine))\b
    | ^\W*not\ (?:mentioned|specified|stated|provided|found)\b
    | \bunclear\ from\ the\b
    | \b(?:answer|information)\b[^.]{0,20}\bis\ not\ (?:\w+\ )?in\ the\b
    | \bnicht\ (?:\w+\ )?
      (?:beantwort|erwähnt|genannt|angegeben|enthalten|feststellen|entnehmen|ersichtlich|hervor)
    | \bkann\ (?:ich\ )?(?:das|diese\ frage|die\ frage)\b[^.]{0,60}\bnicht\b
    | \bweiß\ (?:ich|es)\b[^.]{0,20}\bnicht\b | \bich\ weiß\ (?:es|das)\ (?:leider\ )?nicht\b
    | \b(?:passagen?|dokumente?n?|quellen?|texte?n?|abschnitte?n?|unterlagen|kontext)\b[^.]{0,40}
      \b(?:enthalten|enthält|nennen|nennt|geben|gibt|machen|macht|sagen|sagt|beantworten|beantwortet)\b
      [^.]{0,30}\b(?:keine?n?|nicht|nichts)\b
    | \bkeine?n?\ (?:\w+\ )?(?:informationen?|angaben?|hinweise?|antwort|auskunft|auskünfte)\b
    | \b(?:finde|fand|steht|gefunden|finden)\b[^.]{0,40}\bnichts\b
    | \bnichts\b[^.]{0,60}\b(?:gefunden|finden|steht)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def refusal(query: str) -> str:
    """Return the sentence that refuses a question: in German for a German question, else in English."""
    return _SENTENCES.get(guess_language(query) or "", _SENTENCES["english"])


def reads_like_refusal(answer: str, *, cited: bool) -> bool:
    """Tell whether a short answer that cites nothing says, in English or German, that it has no answer."""
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
