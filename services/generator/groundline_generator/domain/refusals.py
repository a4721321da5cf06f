"""How an answer says that there is none."""

import re

from groundline_generator.domain.language import guess_language
from groundline_generator.domain.prompting import NO_ANSWER_MARKER

__all__ = ["RefusalFilter", "reads_like_refusal", "refusal"]

_SENTENCES = {
    "english": "I cannot answer this from the documents.",
    "german": "Das kann ich anhand der Dokumente nicht beantworten.",
}

_DECORATION = "\n\r\t *_`\"'#>:.-"
"""What models put around the marker."""

_MAX_LEAD_CHARACTERS = 40

_LONGEST_REFUSAL_CHARACTERS = 400
_PHRASES = re.compile(
    r"\b(?:can ?not|can['’]t|unable to|not able to) (?:be )?answer"
    r"|\b(?:passages?|documents?|sources?|context|texts?)\b[^.]{0,40}"
    r"\b(?:do(?:es)? not|don['’]t|doesn['’]t) (?:\w+ )?(?:contain|mention|hold|provide|include|answer|state)"
    r"|\bnicht (?:\w+ )?beantwort|\bkann (?:ich )?(?:das|diese frage|die frage)\b[^.]{0,60}\bnicht\b"
    r"|\b(?:passagen?|dokumente?n?|quellen?|texte?n?|abschnitte?n?)\b[^.]{0,40}"
    r"\b(?:enthalten|enthält|nennen|nennt|geben|gibt|beantworten)\b[^.]{0,30}\b(?:keine?n?|nicht)\b",
    re.IGNORECASE,
)


def refusal(query: str) -> str:
    """The sentence that refuses a question: in German where the question is, else in English."""
    return _SENTENCES.get(guess_language(query) or "", _SENTENCES["english"])


def reads_like_refusal(answer: str, *, cited: bool) -> bool:
    """Whether a short answer that cites nothing says, in English or German, that there is none."""
    return not cited and len(answer) <= _LONGEST_REFUSAL_CHARACTERS and bool(_PHRASES.search(answer))


class RefusalFilter:
    """Takes the marker of a refusal off the beginning of a stream, however it is cut."""

    def __init__(self) -> None:
        self._lead: str | None = ""
        self.refused = False

    def feed(self, text: str) -> str:
        """Take the next piece; returns what may be sent on. The beginning is held until it is known."""
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
        """What is left when the stream has ended."""
        text, self._lead = self._lead or "", None
        return text
