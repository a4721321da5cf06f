"""Kinds of answers that questions ask for."""

import re
from typing import Final

_QUANTITY: Final = re.compile(
    r"\bhow (?:many|much|long|old|far|often|large|big|high|tall|deep|fast)\b|\bwhat (?:percent|number|share)"
    r"|\bwie ?(?:viele?|lange?|alt|weit|oft|groß|hoch|tief|schnell|häufig)\b"
    r"|\bwelche[rn]? (?:anteil|anzahl|zahl)",
    re.IGNORECASE,
)
_TIME: Final = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)\b"
    r"|\bwann\b|\bwelche[mnrs]? (?:jahr|datum|tag|monat|jahrzehnt|jahrhundert)",
    re.IGNORECASE,
)
_PERSON: Final = re.compile(r"\bwho(?:m|se)?\b|\bwe[rnm]\b|\bwessen\b", re.IGNORECASE)

NUMBER: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion"
    r"|half|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|millionen?|halb|doppelt)\b",
    re.IGNORECASE,
)
DATE: Final = re.compile(
    r"\b\d{3,4}\b|\b\d{1,2}[./]\d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|century|Jahrhundert)\b"
)
_NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w'’-]+")

_STEPS: Final = re.compile(
    r"\b(?:what (?:now|next|(?:do|should|can|must|shall|would) (?:i|we|you|one|they))|what to do"
    r"|how (?:do|can|should|must) (?:i|we|you|one)|how to|was (?:nun|tun|(?:mache|tue|muss|soll|kann) ich)"
    r"|was (?:machen|tun|müssen|sollen|können) wir|was (?:muss|soll|kann) (?:man|ich) tun"
    r"|wie (?:kann|muss|soll) (?:ich|man)|wie (?:mache|gehe) ich)\b",
    re.IGNORECASE,
)


_NOT: Final = r"(?:not|never|nicht|nie|niemals|kein(?:e[nmrs]?)?)"
_MAY: Final = (
    r"(?:may|can|allowed|permitted|supposed|must|should|darf|dürfen|kann|können|soll|sollen|erlaubt)"
)
_PROHIBITION: Final = re.compile(
    rf"\b(?:{_MAY}\b[^.?!]*\b{_NOT}|{_NOT}\b[^.?!]*\b{_MAY})\b|\b(?:ca|must|may|should)n['’]t\b"
    r"|\b(?:forbidden|prohibited|banned|verboten|untersagt|tabu)\b",
    re.IGNORECASE,
)
_EXCLUSION: Final = re.compile(
    r"^\W*(?:(?:\w+\s+)?(?:what|which|who|whom|where|welche[mnrs]?|wer|we[mn]|wo|wofür|womit|wohin)|was)\b"
    r"(?:(?!\b(?:if|when|because|wenn|falls|weil|sodass|damit)\b)[^,;.?!])*?"
    rf"(?:\b{_NOT}\b|n['’]t\b|\b(?:excluded|exempt|ausgeschlossen|ausgenommen)\b)",
    re.IGNORECASE,
)
_PERMISSION: Final = re.compile(
    r"\b(?:(?-i:may)|can|allowed|permitted|welcome|darf|dürfen|kann|können|erlaubt|gestattet|zulässig)\b",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    rf"\b(?:{_NOT}|no|nobody|none|cannot|\w+n['’]t|only|except|unless|without|but|besides|nur|außer|ohne|sondern"
    r"|ausgenommen|forbidden|prohibited|banned|excluded|unauthori[sz]ed|unlawful|verboten|untersagt|unerlaubt|unzulässig"
    r"|tabu)\b",
    re.IGNORECASE,
)


def asks_what_is_forbidden(query: str) -> bool:
    """Tell whether a question asks what must not be done or is not so, or where, or of whom."""
    return _PROHIBITION.search(query) is not None or _EXCLUSION.search(query) is not None


def only_permits(text: str) -> bool:
    """Tell whether a sentence says what may be done, and nothing of what may not."""
    return _PERMISSION.search(text) is not None and not sets_limits(text)


def sets_limits(text: str) -> bool:
    """Tell whether a sentence says that something is not so, or only so."""
    return _LIMIT.search(text) is not None


def asked_for(query: str) -> re.Pattern[str] | None:
    """Return what the kind of answer that a question asks for looks like: a number, a date or a name."""
    for question, answer in ((_QUANTITY, NUMBER), (_TIME, DATE), (_PERSON, _NAME)):
        if question.search(query):
            return answer
    return None


def asks_for_steps(query: str) -> bool:
    """Tell whether a question asks what to do."""
    return _STEPS.search(query) is not None
