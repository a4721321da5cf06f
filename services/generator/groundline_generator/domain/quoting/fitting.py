"""Scores of sentences by whether they are of the kind that a question asks for: counts, definitions, and no
lines of a table of contents."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from groundline_generator.domain.asking.asked import tells_figure
from groundline_generator.domain.asking.defining import Defined, defines, spells_out
from groundline_generator.domain.quoting.candidates import Candidate
from groundline_generator.domain.quoting.quotation import quotation
from groundline_generator.domain.segments import Kind

_CONTENTS: Final = 0.5
"""Factor of the score of a line that only repeats a heading, or is a link."""

_LINK: Final = re.compile(r"[\s*_]*\[[^\[\]]{1,300}\]\((?:[^()\s<>]{1,2000}|<[^<>]{1,2000}>)\)[\s*_.,;]*")

_COUNTS_SHARE: Final = 0.6
"""Minimum score of a sentence that counts what a question counts, as a share of the best, to be put first."""

_SAME_SECTION_SHARE: Final = 0.3
"""The same of a sentence of the best one's section, to be quoted beside it."""

_DEFINES: Final = 1.5
"""Factor of the score of a sentence that defines what a question asks about."""

_SPELT_OUT: Final = 2.0
"""The same of one that gives the words for the letters."""

_CODE_DEFINES: Final = 0.5
"""The same of code, which uses names and does not define them."""

_NOT_SPELT_OUT: Final = 0.3
"""Factor of the relevance where the words for letters are asked for, and nothing gives them."""


def fade_contents(candidates: Sequence[Candidate]) -> None:
    """Let a line that only repeats a heading count for less: it is of a table of contents."""
    headings = {_bare(each) for each in candidates if each.sentence.segment.kind is Kind.HEADING}
    for each in candidates if headings else ():
        if each.sentence.segment.kind is not Kind.HEADING and _bare(each) in headings:
            each.score *= _CONTENTS


def fade_links(candidates: Sequence[Candidate], *, is_kind_asked: bool) -> None:
    """Let what is nothing but a link come after what stands there, which it does not tell. Where a number, a
    time or a person is asked for, it is less relevant, too."""
    for each in candidates:
        if _LINK.fullmatch(each.sentence.text):
            each.score *= _CONTENTS
            each.relevance *= _CONTENTS if is_kind_asked else 1.0


def _bare(candidate: Candidate) -> str:
    return candidate.sentence.text.strip(" -+*_:.").casefold()


def counts_first(ranked: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the best sentence that counts the things that a question counts, if it is not far behind, before
    the others that are no better; none if there is no such sentence."""
    minimum = _COUNTS_SHARE * ranked[0].score
    counting = (each for each in ranked if each.is_of_kind and each.language == ranked[0].language)
    first = next(counting, None)
    if first is None or first.score < minimum:
        return ()
    return [first, *(each for each in ranked if each is not first and each.score <= first.score)]


def told_near(query: str, ranked: Sequence[Candidate]) -> Candidate | None:
    """Return the best sentence that tells the amount or the time that a question asks for: one of the best
    sentence's section, or else one that is not far behind."""
    best = ranked[0]
    minimum = _COUNTS_SHARE * best.score
    telling = [
        each
        for each in ranked
        if each.language == best.language
        and (each.score >= minimum or _is_beside(each, best))
        and each.hits
        and tells_figure(query, quotation(each.sentence))
    ]
    return max(telling, key=lambda each: (_is_beside(each, best), each.score), default=None)


def _is_beside(each: Candidate, best: Candidate) -> bool:
    is_same = each.sentence.segment.heading == best.sentence.segment.heading
    return is_same and each.passage == best.passage and each.score >= _SAME_SECTION_SHARE * best.score


def put_definitions_first(candidates: Sequence[Candidate], asked: Defined, above: Iterable[str]) -> None:
    """Let sentences that define count for more than those that only mention, and code for less.

    Where the words for letters are asked for, and neither a sentence nor what stands `above` the passages
    gives them, all count for less.
    """
    for each in candidates:
        text, kind = each.sentence.text, each.sentence.segment.kind
        if asked.acronym and spells_out(text, asked.acronym):
            each.is_spelt_out = each.is_of_kind = True
            each.score *= _SPELT_OUT
        elif kind is Kind.CODE:
            each.score *= _CODE_DEFINES
        elif kind is not Kind.HEADING and defines(text, asked, each.language):
            each.is_of_kind = True
            each.score *= _DEFINES
    if not asked.acronym or not asked.only_words or any(each.is_spelt_out for each in candidates):
        return
    if not any(spells_out(each, asked.acronym) for each in above):
        for each in candidates:
            each.relevance *= _NOT_SPELT_OUT
