"""Second steps of answers: what another document says of a name that the quoted one gives.

"Which shelf has the filters of the Buzzard 140?" One document says that its filters are parts group F4, and
another one on which shelf F4 is. The question does not say F4.
"""

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.concepts import is_known
from groundline_language.terms import content_terms

from groundline_generator.domain.asking.asked import NAME, asked_for
from groundline_generator.domain.checking.statements import document_of
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.signs import mentions

_NEAREST: Final = 3
"""Number of sentences of the best passage in which names are looked for, the best first."""

_MAX_TOLD_BY: Final = 3
"""Maximum number of passages with a name that leads on; what more of them have is what all are about."""

_BOTH: Final = 2
"""The same where nothing is relevant alone: those that the answer is of."""

_NAME: Final = re.compile(
    r"(?:(?<=[^\W\dA-ZÄÖÜ] )|(?<=[,;:] )|(?<=\bDr\. ))(?=([A-ZÄÖÜ][^\W\dA-Z]{2,} [A-ZÄÖÜ][\w-]{2,})\b)"
)
"""Two words with a capital side by side within a sentence, which in German, too, are a name."""

_OPENING: Final = re.compile(r"^[A-Z][a-z]{2,} [A-Z][\w-]{2,}\b")
"""The same at the beginning of a sentence, in English."""

_CLAUSE: Final = re.compile(r"[,;:] | (?:and|und) ")
"""Boundary between clauses."""

_NAMED: Final = re.compile(r"(?<=\bthe )[A-Z][a-z]{2,} [a-z]{4,}\b")
"""A word with a capital and what it is the name of: "the Tarpon cluster"."""


def bridged(
    question: Question,
    chosen: Sequence[Candidate],
    ranked: Sequence[Candidate],
    passages: Sequence[pb.NumberedPassage],
    *,
    is_relevant: bool = True,
) -> Sequence[Candidate]:
    """Return a sentence of the best passage with a name that the question does not have, and what another
    document tells of it that this passage lacks of the question, in a sentence or in two.

    Empty without such a pair, and if nothing was chosen. The other document has to tell all that is lacking,
    and the kind of answer that is asked for, if the question is about a time, if a number or date that is
    asked for is among what was chosen, or if that is not relevant alone. If a name is asked for, the other
    sentence has to tell what is lacking, as it does beside a name of one word.
    """
    if not chosen:
        return ()
    asked = asked_for(question.text)
    is_told = any(each.is_of_kind for each in chosen)
    is_strict = not is_relevant or bool(question.time) or (is_told and asked is not NAME)
    best = chosen[0].passage
    about: dict[int, frozenset[str]] = {}
    for each in ranked:
        about[each.passage] = about.get(each.passage, frozenset()) | each.is_about
    lacking = question.terms - about[best]
    others = [
        each
        for each in ranked
        if not lacking.isdisjoint(each.is_about if is_told or is_strict else about[each.passage])
        and document_of(passages[each.passage]) != document_of(passages[best])
        and not each.is_of_other_question
        and not (is_strict and lacking & about[each.passage] - each.is_about)
        and not (is_strict and asked and not each.is_of_kind)
    ]
    near = [each for each in ranked if each.passage == best][:_NEAREST]
    named = [(_is_weak(name, each, question), each, name) for each in near for name in _names(each, question)]
    for is_weak, first, name in sorted(named, key=itemgetter(0)) if others else ():
        written = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        told_by = sum(bool(written.search(each.text)) for each in passages)
        if told_by > (_MAX_TOLD_BY if is_relevant else _BOTH) or (question.time and not first.is_of_time):
            continue
        if _is_of_another(name, first, question):
            continue
        titled = [not is_weak and bool(written.search(each.title)) for each in passages]
        telling = [
            each
            for each in others
            if ((is_said := bool(written.search(each.sentence.text))) and not is_weak)
            or ((is_said or titled[each.passage]) and not lacking.isdisjoint(each.hits))
        ]
        if telling:
            second = max(telling, key=lambda each: (len(lacking & each.is_about), each.score))
            return first, second, *_going_on(second, ranked, lacking, is_titled=titled[second.passage])
    return ()


def _is_of_another(name: str, candidate: Candidate, question: Question) -> bool:
    """Tell whether a sentence names something before it comes to what the question is about: "the boilers
    are Graham's, and the pumps Yusuf's"."""
    text, language = candidate.sentence.text, candidate.language
    start = text.find(name)
    clause = _CLAUSE.search(text, start + len(name))
    if clause is None or candidate.refers_back or not any(content_terms(text[:start], language)):
        return False
    told, after = (
        question.terms.intersection(content_terms(each, language))
        for each in (text[: clause.start()], text[clause.end() :])
    )
    return not told and bool(after)


def _going_on(
    second: Candidate, ranked: Sequence[Candidate], lacking: frozenset[str], *, is_titled: bool
) -> Iterator[Candidate]:
    """Yield the next sentence if it tells of the same thing more of what is lacking."""
    for each in ranked:
        is_next = (each.passage, each.position) == (second.passage, second.position + 1)
        tells_more = not each.hits.keys().isdisjoint(lacking - second.is_about)
        if is_next and tells_more and (is_titled or each.refers_back):
            yield each


def _is_weak(name: str, candidate: Candidate, question: Question) -> bool:
    """Tell whether a name is of one word, or has a word of the question's, so that it may be said of much."""
    is_single = not any(map(str.isdigit, name)) and (" " not in name or name.split()[1].islower())
    return is_single or not question.terms.isdisjoint(content_terms(name, candidate.language))


def _is_alone(name: str, candidate: Candidate) -> bool:
    """Tell whether a word is a name by itself, neither common nor part of a longer name or designation."""
    is_part = re.search(rf"\b{re.escape(name)}[ -][A-ZÄÖÜ\d]", candidate.sentence.text)
    language = candidate.language
    return is_part is None and language is not None and not is_known(name, language)


def _names(candidate: Candidate, question: Question) -> Iterator[str]:
    """Yield designations, labels and names, with what they are names of if they are of one word, that the
    question does not have."""
    text, language = candidate.sentence.text, candidate.language
    several = [
        each
        for each in mentions(text, language)
        if " " in each or any(map(str.isdigit, each)) or _is_alone(each, candidate)
    ]
    named = [*_OPENING.findall(text), *_NAMED.findall(text)] if language == "english" else ()
    for name in dict.fromkeys([*several, *_NAME.findall(text), *named]):
        terms = frozenset(content_terms(name, language))
        if question.terms.isdisjoint(terms) or (len(terms) > 1 and not terms <= question.terms):
            yield name
