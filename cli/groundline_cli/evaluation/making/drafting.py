"""Drafts of questions, made by rules from sentences that name a number, a date, a part or a name.

They are a beginning for a person: such a question has the words of its sentence, which makes it easier to
find than what people ask.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MONTHS: Final = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
)
_NUMBER: Final = r"(?<![\w.,:-])\d+(?:[.,]\d+)*(?![\w:-])"
_NO_UNIT: Final = (
    r"(?:a|and|at|the|when|or|to|from|in|of|is|are|has|have|und|oder|bis|von|im|der|die|das|severity)\b"
)
_ANSWERS: Final = (
    # A date; a number with its unit; a model or part number; a name of several words within a sentence.
    re.compile(rf"\b\d{{1,2}}\.? (?:{_MONTHS})(?: \d{{4}})?\b"),
    re.compile(rf"{_NUMBER}(?:\s?%|\s(?:(?:working|calendar|business) )?(?!{_NO_UNIT})[^\W\d_]+)"),
    re.compile(r"\b[A-Z]{1,5}-\d[\w-]*"),
    re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)+\b"),
)
_WITHOUT_SUBJECT: Final = re.compile(r"(?:It|They|This|These|That|Those|He|She|Es|Sie|Dies\w*|Er)\b")
_LEAST_WORDS: Final = 6
_MOST_WORDS: Final = 40
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[\"„“(]?[A-ZÄÖÜ\d])")
_NO_PROSE: Final = re.compile(r"^\s*(?:#|\||```|    |>)|[{}<>|]|https?://")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_GERMAN: Final = re.compile(
    r"\b(?:der|die|das|und|ist|sind|haben|nicht|mit|von|für|wird|werden|ein|eine|dem|den)\b"
)
_NO_CLAUSE: Final = "^(?!If |When |Where |Wenn |Wer |Wo )"
_HAVE: Final = re.compile(
    rf"{_NO_CLAUSE}(?P<who>[^,;:]{{3,60}}?) (?P<verb>have|has) (?P<number>\d[\d.,]*) (?P<what>[^,;:.]+)"
)
_IS: Final = re.compile(
    rf"{_NO_CLAUSE}(?P<what>[^,;:]{{3,80}}?) (?P<verb>is|are|was|were|ist|sind|war|waren|beträgt) "
)
_GAP: Final = "…"


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its answer, and where both come from."""

    draft_id: str
    question: str
    answer: str
    uri: str
    """Document that holds the answer."""
    sentence: str


def drafts(documents: Sequence[tuple[str, str]]) -> Iterator[Draft]:
    """Yield drafts of documents (uri, text), one of each in turn, each document's spread over its text."""
    waiting = [_of_document(uri, text) for uri, text in documents]
    while waiting:
        left = []
        for each in waiting:
            if (one := next(each, None)) is not None:
                yield one
                left.append(each)
        waiting = left


def draft(uri: str, sentence: str) -> Draft | None:
    """Make a question that a sentence answers, or None if it names nothing to ask for."""
    if not _LEAST_WORDS <= len(sentence.split()) <= _MOST_WORDS or not sentence.endswith("."):
        return None
    if _WITHOUT_SUBJECT.match(sentence):
        return None
    for pattern in _ANSWERS:
        if found := pattern.search(sentence):
            answer = found[0].strip(" .,")
            question = _question(sentence, answer, found.start())
            draft_id = hashlib.sha256(f"{uri}\n{sentence}".encode()).hexdigest()[:12]
            return Draft(draft_id, question, answer, uri, sentence)
    return None


def _of_document(uri: str, text: str) -> Iterator[Draft]:
    found = [one for sentence in _sentences(text) if (one := draft(uri, sentence)) is not None]
    # Every third, then those between: the first questions are not all of the first page.
    for start in range(3):
        yield from found[start::3]


def _sentences(text: str) -> Iterator[str]:
    for paragraph in text.splitlines():
        if not _NO_PROSE.search(paragraph):
            for sentence in _SENTENCE_END.split(_LIST_MARK.sub("", paragraph)):
                yield " ".join(sentence.split())


def _question(sentence: str, answer: str, start: int) -> str:
    is_german = bool(_GERMAN.search(sentence))
    if not is_german and (have := _HAVE.match(sentence)) and have.start("number") == start:
        auxiliary = "does" if have["verb"] == "has" else "do"
        return f"How many {have['what'].strip()} {auxiliary} {_lower(have['who'])} have?"
    if (be := _IS.match(sentence)) and be.end() == start:
        if is_german:
            verb = {"beträgt": "ist"}.get(be["verb"], be["verb"])
            return f"{'Wie hoch' if be['verb'] == 'beträgt' else 'Was'} {verb} {_lower(be['what'])}?"
        return f"What {be['verb']} {_lower(be['what'])}?"
    gap = f"{sentence[:start]}{_GAP}{sentence[start + len(answer) :]}"
    return f"Was fehlt hier: „{gap}“" if is_german else f"What is missing here: “{gap}”"


def _lower(words: str) -> str:
    """Return the words with an article at their beginning in lower case; names keep their letters."""
    first, _, rest = words.partition(" ")
    return f"{first.lower() if first in _ARTICLES else first} {rest}".strip()


_ARTICLES: Final = frozenset(
    {"The", "A", "An", "Each", "Every", "All", "Full-time", "Part-time", "Der", "Die", "Das", "Ein", "Eine"}
)
