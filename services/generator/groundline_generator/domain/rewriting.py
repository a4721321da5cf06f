"""Rewriting of questions without a model, in English and German, by their words.

A follow-up (a pronoun with little beside it, "what about X?", "und X?", a bare "why?") takes over the topic
of the last question that stood alone. Several questions in one, and comparisons of two things, are split. The
rules know no grammar: added words stand beside the question, not in it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groundline.v1 import chat_pb2
from groundline_language import guess_language
from groundline_language.concepts import translated
from groundline_language.terms import content_terms

from groundline_generator.domain.comparing import compared

_WORD: Final = re.compile(r"[\w][\w'’.+#/-]*[\w+#]|\w")
_QUOTED: Final = re.compile(r"[\"“„«']([^\"“”„«»']{2,80})[\"”“»']")

_ELLIPSIS: Final = re.compile(
    r"^\s*(?:(?:and|but|so|then|also|or)\s+)?(?:what|how)\s+about\b"
    r"|^\s*(?:and|but|also|or)\b"
    r"|^\s*(?:und|aber|oder)\b|^\s*(?:und\s+)?was\s+ist\s+mit\b|^\s*(?:und\s+)?wie\s+(?:sieht|steht)\s+es\b",
    re.IGNORECASE,
)
# Words that point back whatever stands around them.
_POINTERS: Final = re.compile(
    r"\b(?:its|their|them|they|theirs|those|these|his|hers?|him|she|he|the (?:former|latter)"
    r"|that one|this one|the ones?"
    r"|deren|dessen|davon|dafür|damit|daran|darin|darauf|dazu|dort|dabei|diese[rnms]?"
    r"|ihn|ihm|ihre?[nmrs]?)\b",
    re.IGNORECASE,
)
# Words that often point back and often do not ("it is possible", "that the", "es gibt", "das Haus").
_WEAK_POINTERS: Final = re.compile(
    r"\b(?:it|this|that|there|one|before|after|afterwards|earlier|later|er|sie|es|das(?!\s+(?-i:[A-ZÄÖÜ]))|sein(?:e[nmrs]?)?"
    r"|vorher|nachher|davor|danach|zuvor)\b",
    re.IGNORECASE,
)
_MAX_TERMS_POINTED: Final = 6
_MAX_TERMS_WEAKLY_POINTED: Final = 2

_LEAD: Final = re.compile(
    r"^\s*(?:(?:and|but|so|then|also|or|und|aber|oder|dann|auch)\b[\s,]*)*"
    r"(?:(?:what|how)\s+about\b|was\s+ist\s+mit\b|wie\s+(?:sieht|steht)\s+es\s+(?:\w+\s+)?(?:mit|bei|um)\b)?\s*",
    re.IGNORECASE,
)
_QUESTION_WORD: Final = (
    r"(?:what|when|where|who|whom|whose|which|why|how|is|are|does|do|did|can|could|should|will"
    r"|was|wann|wo|wer|wen|wem|wessen|welche[rnms]?|warum|wieso|weshalb|wie|wohin|woher|wofür|womit"
    r"|ist|sind|kann|muss|darf|hat|haben|gibt)"
)
_BEFORE_QUESTION_WORD: Final = (
    r"(?:(?:at|by|for|from|in|of|on|since|to|until|with|ab|an|auf|aus|bei|bis|für|mit|nach|seit|um|unter|von|zu)"
    r"\s+)"
)
_NEXT_QUESTION: Final = re.compile(
    rf"(?:(?<=\?)|,?)\s+(?:and|und|sowie)\s+"
    rf"(?=(?:also\s+|auch\s+)?{_BEFORE_QUESTION_WORD}?{_QUESTION_WORD}\b)|(?<=\?)\s+",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(rf"\b{_QUESTION_WORD}\b", re.IGNORECASE)
_REQUEST: Final = (
    r"(?:(?:please|bitte)\s+)?(?:tell\s+me|sag(?:en\s+sie)?\s+mir|"
    r"i(?:'d|\s+would)?\s+(?:like|need|want)\s+to\s+know|ich\s+(?:möchte|muss|will)\s+wissen)[\s,]+"
)
_OPENS_LIKE_QUESTION: Final = re.compile(rf"^\s*(?:{_REQUEST})?(?:\w+\s+)?{_QUESTION_WORD}\b", re.IGNORECASE)

# "And in Kiel?", "And the lifetime of the broker's?": what it replaces stood behind such a word, too.
_PREPOSITION: Final = (
    r"(?:of|for|in|on|at|to|from|by|with|über|für|von|vom|in|im|am|an|auf|bei|beim|nach|zu|zum|zur|mit|aus)"
)
_PHRASE: Final = re.compile(
    rf"\b(?i:(?P<by>{_PREPOSITION}))\s+(?P<words>(?:(?!{_PREPOSITION}\b)[a-zäöüß'’-]+\b\s*){{0,4}}(?:[A-ZÄÖÜ\d][\w./#-]*)?)"
)
_OTHER: Final = re.compile(r"\b(?:other|andere[rnms]?)\s+(?P<what>[\w-]+)", re.IGNORECASE)

_INFLECTED: Final = 1
"""Maximum difference in length of two forms of a word."""

_TOPIC_TERMS: Final = 6


def standalone(query: str, history: Sequence[chat_pb2.ChatMessage]) -> str:
    """Return the question, with the topic that it leaves out behind it in parentheses."""
    asked = [message.content for message in history if message.role == chat_pb2.ChatMessage.USER]
    if not _points_back(query) or not asked:
        return query
    topic = _topic(asked)
    bare = _LEAD.sub("", query).strip()
    own = _Topic.of(query)
    carried = topic.words
    if _ELLIPSIS.search(query):
        # "And for Austria?": the new thing takes the place of the old one.
        replaced = topic.entities if own.entities else frozenset[str]()
        replaced = replaced or _replaced(bare, topic.question)
        carried = [word for word in carried if word not in replaced] or carried
    language = guess_language(" ".join(asked)) or guess_language(query)
    known = {term: word for word in query.split() for term in content_terms(word, language)}
    added = [word for word in carried if not _is_form_of(word, known, language)]
    if not added:
        return query
    return f"{(bare or query).rstrip(' ?')} ({' '.join(added)})?"


def decompose(query: str, max_sub_queries: int) -> tuple[str, ...]:
    """Return the parts of a compound question or a comparison; empty for a simple one."""
    if max_sub_queries < 2:
        return ()
    return compared(query) or questions_in(query, max_sub_queries)


def questions_in(query: str, limit: int) -> tuple[str, ...]:
    """Return the questions that one of several consists of, each once, at most `limit`; empty for a single
    one."""
    # One space at a time: the pattern would try each of many.
    spaced = " ".join(query.split())
    parts = [part.strip(" ,.") for part in _NEXT_QUESTION.split(spaced) if part.strip(" ,.?")]
    if len(parts) < 2 or not all(_is_question(part) for part in parts):
        return ()
    asked: list[str] = []
    for part in parts[:limit]:
        history = [chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.USER, content=earlier) for earlier in asked]
        asked.append(standalone(part if part.endswith("?") else f"{part}?", history))
    distinct = tuple(dict.fromkeys(asked))
    return distinct if len(distinct) > 1 else ()


def translation(query: str) -> tuple[str, ...]:
    """Return the question's words in the other one of English and German, to search for beside it; empty if
    none is known."""
    words = translated(query, guess_language(query))
    return (words,) if words else ()


def _is_form_of(word: str, known: Mapping[str, str], language: str | None) -> bool:
    """Tell whether one of the known words, by their terms, is the same; "parental" is not "parent"."""
    same = (known[term].strip("?.,!") for term in content_terms(word, language) if term in known)
    return any(abs(len(word) - len(each)) <= _INFLECTED for each in same)


def _replaced(query: str, earlier: str) -> frozenset[str]:
    """Return the words of an earlier question in whose place a follow-up has others: the last phrase with the
    same preposition, or what told one from "the other"."""
    if (other := _OTHER.search(query)) and (same := re.search(rf"\b{other['what']}\b", earlier)):
        return frozenset(_WORD.findall(earlier[same.end() :]))
    if _ASKS.search(query):
        return frozenset()
    asked = [phrase["by"].casefold() for phrase in _PHRASE.finditer(query)]
    phrases = [each for each in _PHRASE.finditer(earlier) if each["by"].casefold() in asked]
    return frozenset(_WORD.findall(phrases[-1]["words"])) if phrases else frozenset()


def _is_question(part: str) -> bool:
    return bool(_OPENS_LIKE_QUESTION.search(part)) and bool(content_terms(part, guess_language(part)))


def _points_back(query: str) -> bool:
    terms = len(set(content_terms(query, guess_language(query))))
    return (
        bool(_ELLIPSIS.search(query))
        or terms == 0
        or (terms <= _MAX_TERMS_POINTED and bool(_POINTERS.search(query)))
        or (terms <= _MAX_TERMS_WEAKLY_POINTED and bool(_WEAK_POINTERS.search(query)))
    )


@dataclass(frozen=True, slots=True)
class _Topic:
    """Topic of a question: its content words in order, and those of them that name something."""

    words: list[str]
    entities: frozenset[str]
    question: str = ""

    @classmethod
    def of(cls, question: str) -> "_Topic":
        """Return the topic of a question without its lead ("and", "what about"), after which a capital does
        not begin a sentence."""
        whole, question = question, _LEAD.sub("", question)
        opens = question.strip() == whole.strip()
        language = guess_language(question)
        words = _QUOTED.findall(question)
        entities = set(words)
        for found in _WORD.finditer(_QUOTED.sub(" ", question)):
            word = found.group()
            if not content_terms(word, language):
                continue
            words.append(word)
            if _names(word, first=opens and not question[: found.start()].strip(), language=language):
                entities.add(word)
        return cls(list(dict.fromkeys(words))[: _TOPIC_TERMS * 2], frozenset(entities), question)


def _names(word: str, *, first: bool, language: str | None) -> bool:
    """Tell whether a word names something: an identifier, a number, or a capitalised word in a language that
    does not capitalise nouns."""
    if any(character.isdigit() or character in "_./#" for character in word[:-1]) or not word[1:].islower():
        return len(word) > 1
    return word[0].isupper() and not first and language != "german"


def _topic(asked: Sequence[str]) -> _Topic:
    """Return the topic of the last question that stood alone, with the names of the follow-ups since then."""
    later: list[str] = []
    named: set[str] = set()
    for question, is_first in zip(reversed(asked), [*[False] * (len(asked) - 1), True], strict=True):
        topic = _Topic.of(question)
        # Before the first question there is nothing to point back to.
        if topic.words and (is_first or not _points_back(question)):
            words = topic.words[:_TOPIC_TERMS]
            if named:
                words = [word for word in words if word not in topic.entities] + later
            return _Topic(words, frozenset(named) or topic.entities, topic.question)
        if not later:
            later, named = [word for word in topic.words if word in topic.entities], set(topic.entities)
    return _Topic(later, frozenset(named))
