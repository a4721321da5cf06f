"""Second steps of answers: what another document says of a name that the quoted one gives.

"Which shelf has the filters of the Buzzard 140?" One document says that its filters are parts group F4, and
another one on which shelf F4 is. The question does not say F4.
"""

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.terms import content_terms

from groundline_generator.domain.asking.asked import NAME, asked_for
from groundline_generator.domain.checking.statements import document_of
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.signs import mentions

_NEAREST: Final = 3
"""Number of sentences of the best passage in which names are looked for, the best first."""

_MAX_TOLD_BY: Final = 3
"""Maximum number of passages with a name that leads on; what more of them have is what all are about."""

_NAME: Final = re.compile(r"(?<=[a-zäöüß,;:] )[A-ZÄÖÜ][a-zäöüß]{2,} [A-ZÄÖÜ][\w-]{2,}\b")
"""Two words with a capital side by side within a sentence, which in German, too, are a name."""

_OPENING: Final = re.compile(r"^[A-Z][a-z]{2,} [A-Z][\w-]{2,}\b")
"""The same at the beginning of a sentence, in English."""

_NAMED: Final = re.compile(r"(?<=\bthe )[A-Z][a-z]{2,} [a-z]{4,}\b")
"""A word with a capital and what it is the name of: "the Tarpon cluster"."""


def bridged(
    question: Question,
    chosen: Sequence[Candidate],
    ranked: Sequence[Candidate],
    passages: Sequence[pb.NumberedPassage],
) -> Sequence[Candidate]:
    """Return a sentence of the best passage with a name that the question does not have, and the one of
    another document that tells of it something that this passage lacks of the question.

    Empty without such a pair, for a question about a time, and if the number or date that is asked for is
    among what was chosen. If a name is asked for, the other sentence has to tell what is lacking, as
    it does beside a name of one word.
    """
    is_told = any(each.is_of_kind for each in chosen)
    if question.time or (is_told and asked_for(question.text) is not NAME):
        return ()
    best = chosen[0].passage
    about: dict[int, frozenset[str]] = {}
    for each in ranked:
        about[each.passage] = about.get(each.passage, frozenset()) | each.is_about
    lacking = question.terms - about[best]
    others = [
        each
        for each in ranked
        if not lacking.isdisjoint(about[each.passage])
        and document_of(passages[each.passage]) != document_of(passages[best])
        and not each.is_of_other_question
    ]
    near = [each for each in ranked if each.passage == best][:_NEAREST]
    named = [(_is_weak(name, each, question), each, name) for each in near for name in _names(each, question)]
    for is_weak, first, name in sorted(named, key=itemgetter(0)) if others else ():
        written = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        telling = [
            each
            for each in others
            if written.search(each.sentence.text)
            and not (is_weak and lacking.isdisjoint(each.hits))
            and not (is_told and lacking.isdisjoint(each.is_about))
        ]
        if telling and sum(bool(written.search(each.text)) for each in passages) <= _MAX_TOLD_BY:
            return first, max(telling, key=lambda each: (len(lacking & each.is_about), each.score))
    return ()


def _is_weak(name: str, candidate: Candidate, question: Question) -> bool:
    """Tell whether a name is of one word, or has a word of the question's, so that it may be said of much."""
    terms = content_terms(name, candidate.language)
    return (" " in name and name.split()[1].islower()) or not question.terms.isdisjoint(terms)


def _names(candidate: Candidate, question: Question) -> Iterator[str]:
    """Yield designations, labels and names, with what they are names of if they are of one word, that the
    question does not have."""
    text, language = candidate.sentence.text, candidate.language
    several = [each for each in mentions(text, language) if " " in each or any(map(str.isdigit, each))]
    named = [*_OPENING.findall(text), *_NAMED.findall(text)] if language == "english" else ()
    for name in dict.fromkeys([*several, *_NAME.findall(text), *named]):
        terms = frozenset(content_terms(name, language))
        if question.terms.isdisjoint(terms) or (len(terms) > 1 and not terms <= question.terms):
            yield name
