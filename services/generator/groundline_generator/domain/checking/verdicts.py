"""Verdicts of the rules on claims: each is compared with the sentences that share its words."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from groundline.v1 import error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.differences import Deviation, difference, told_otherwise
from groundline_generator.domain.checking.wording import WordedText, has_form_of, in_order, is_said_otherwise
from groundline_generator.domain.reading import Sentence, read
from groundline_generator.domain.segments import Kind

_SUPPORTED: Final = 0.55
"""Share of a claim's terms from which a sentence that says nothing otherwise supports it."""

_FEW_TERMS: Final = 3
_SUPPORTED_IF_SHORT: Final = 0.7
"""The same of a claim of three terms or fewer, of which one may be all that it says."""

_OWN: Final = 0.4
"""Share of a claim's terms that a sentence must have itself, and not only what stands around it."""

_REFUTED: Final = 0.7
"""Share of a claim's other terms from which a sentence that has some otherwise refutes it."""

_AS_NEAR: Final = 0.1
"""Maximum difference of two sentences' shares by which they count as equally near."""

_SUPPORT: Final = (3.0, -1.3)
_REFUTATION: Final = (5.9, -2.7)
_NOTHING: Final = (1.6, -0.1)
"""Weight and bias of how likely a verdict is right, by the share of the claim's words that the sentence has
in their order (of one that is not found, of its terms).

Fitted on claims of seven sets, English and German, of which none counted more than another: FEVER symmetric,
FoolMeTwice, Check-COVID, WiCE, PAWS-X, and sentences of xquad as they are, changed, and without their
paragraph."""

_LIKELY: Final = 0.5
"""Likelihood below which a sentence that has something otherwise does not refute a claim."""

_COMPARED: Final = 0.3
"""Share of a claim's terms below which a sentence is not looked at further."""

_COMPARABLE: Final = 0.5
"""Share of an answer's sentence in one of the passages' from which the two are compared."""

_VERBATIM: Final = 0.9
"""Share of a claim's other words that a sentence has in their order, from which it decides alone by what it
has otherwise."""

_AROUND: Final = 0.7
"""Weight of a term that stands only above or before a sentence."""

_ALIKE: Final = 0.9
"""Weight of a term of which the sentence has another form."""


@dataclass(frozen=True, slots=True)
class _Near:
    """A sentence of a passage, and how near a claim is to it."""

    number: int
    sentence: Sentence
    wording: WordedText
    """The sentence as it is compared."""
    around: str
    """Titles, headings, context, and the sentences beside it."""
    share: float
    """Share of the claim's terms in it and around it."""
    own: float
    """Share of the claim's terms in it."""


class _Verbatim(NamedTuple):
    """A sentence that has a claim word for word but for a deviation, and how likely it refutes it."""

    near: _Near
    found: Deviation
    likelihood: float


class _Claim:
    """A claim, read in the language of each passage if it does not tell its own."""

    def __init__(self, claim: pb.Claim) -> None:
        self.context = claim.context
        self._text = claim.text
        self.language = guess_language(claim.text)
        self._wordings: dict[str | None, WordedText] = {}

    @property
    def enough(self) -> float:
        """Share of its terms from which a sentence supports it."""
        is_short = len(self.wanted(self.language)) <= _FEW_TERMS
        return _SUPPORTED_IF_SHORT if is_short else _SUPPORTED

    def wanted(self, language: str | None) -> frozenset[str]:
        """Return the terms to look for; a designation is one, and not its letters and digits besides."""
        terms = self.wording(language).terms
        for shown in self.wording(language).designations.values():
            whole, *parts = content_terms(shown, language)
            if whole in terms:
                terms = terms.difference(parts)
        return terms

    def around(self, near: _Near) -> WordedText:
        """Return what else may bear it out beside a sentence."""
        return WordedText(f"{near.around}\n{self.context}", near.wording.language)

    def wording(self, language: str | None) -> WordedText:
        if language not in self._wordings:
            self._wordings[language] = WordedText(self._text, language)
        return self._wordings[language]


def verdict_on(claim: pb.Claim, passages: Sequence[pb.NumberedPassage]) -> pb.ClaimVerdict:
    """Return the verdict on a claim.

    The nearest sentences decide: if one of them has nothing otherwise, it supports the claim; else the first
    that has something otherwise refutes it. One that has the claim word for word, but for what it has
    otherwise, decides for its whole passage.
    """
    asked = _Claim(claim)
    near = _nearest_first(asked, passages)
    if not near or near[0].share < _SUPPORTED or max(each.own for each in near) < _OWN:
        return _not_found(near[0] if near else None)
    refuting = lacking = None
    verbatim = _otherwise_verbatim(asked, near)
    if verbatim and verbatim.found.contradicts and verbatim.likelihood >= _LIKELY:
        refuting = (verbatim.near, verbatim.found, verbatim.likelihood)
    elif verbatim:
        lacking = (verbatim.near, verbatim.found)
    for each in near:
        if each.share < max(_SUPPORTED, near[0].share - _AS_NEAR):
            break
        if each.own < _OWN or (verbatim and each.number == verbatim.near.number):
            continue
        wording = asked.wording(each.wording.language)
        found = difference(wording, each.wording, asked.around(each))
        order = in_order(wording, each.wording)
        if found is None:
            if each.share < asked.enough:
                continue
            return pb.ClaimVerdict(
                verdict=verification_pb2.VERDICT_SUPPORTED,
                probability=_likelihood(_SUPPORT, order),
                evidence=[_evidence(each)],
            )
        likelihood = _likelihood(_REFUTATION, order)
        if found.contradicts and likelihood >= _LIKELY and _is_nearly_said(wording, each, found):
            refuting = refuting or (each, found, likelihood)
        else:
            lacking = lacking or (each, found)
    if refuting:
        return _refuted(*refuting)
    return _not_found(*lacking) if lacking else _not_found(near[0])


def deviation(claim: str, passages: Sequence[pb.NumberedPassage]) -> Deviation | None:
    """Return what a claim has otherwise than the passages that bear it out together, or has and they lack.

    The nearest sentences decide, as for a verdict: one that says nothing otherwise is enough. What a sentence
    only lacks may stand anywhere in the passages.
    """
    if any(claim in passage.text for passage in passages):
        return None
    asked = _Claim(pb.Claim(text=claim))
    near = _nearest_first(asked, passages)
    verbatim = _otherwise_verbatim(asked, near)
    everything = "\n".join(f"{each.title}\n{each.context}\n{each.text}" for each in passages)
    first = verbatim.found if verbatim else None
    for each in near:
        if each.share < max(_COMPARABLE, near[0].share - _AS_NEAR):
            break
        if verbatim and each.number == verbatim.near.number:
            continue
        found = _otherwise(asked, each, each.around) or _otherwise(asked, each, everything, lacking=True)
        if found is None:
            return None
        first = first or found
    if first is None:
        language = asked.language or guess_language(everything)
        return difference(asked.wording(language), WordedText("", language), WordedText(everything, language))
    return first


def _otherwise_verbatim(asked: _Claim, near: Sequence[_Near]) -> _Verbatim | None:
    """Return the sentence that has more of a claim's words in their order than others have, if these are
    nearly all but those in whose place it has others, and how likely it refutes the claim: what is beside it
    and shares the claim's words does not bear it out then."""
    compared = [
        (in_order(asked.wording(each.wording.language), each.wording), each)
        for each in near
        if each.share >= _COMPARABLE
    ]
    if not compared:
        return None
    order, first = max(compared, key=lambda each: each[0])
    claim = asked.wording(first.wording.language)
    found = difference(claim, first.wording, asked.around(first))
    if found is None or not found.said:
        return None
    words = len(claim.tokens)
    others = words - len(WordedText(found.claimed, None).tokens)
    is_verbatim = order * words >= _VERBATIM * others
    return _Verbatim(first, found, _likelihood(_REFUTATION, order)) if is_verbatim else None


def _otherwise(asked: _Claim, near: _Near, around: str, *, lacking: bool = False) -> Deviation | None:
    """Return what a claim has otherwise than a sentence that is nearly the same; with `lacking`, also what is
    missing in the sentence and around it."""
    language = near.wording.language
    wording = asked.wording(language)
    found = difference(wording, near.wording, WordedText(around, language))
    if found is None or (found.contradicts and not _is_nearly_said(wording, near, found)):
        return None
    return found if found.contradicts or lacking else None


def nearest(claim: pb.Claim, passage: pb.NumberedPassage) -> tuple[int, int]:
    """Return where the sentence stands that has most of a claim's terms; the whole passage if none has."""
    near = max(_near(_Claim(claim), passage), key=lambda each: each.share, default=None)
    if near is None:
        return 0, len(passage.text)
    return near.sentence.segment.start, near.sentence.segment.end


def _nearest_first(claim: _Claim, passages: Sequence[pb.NumberedPassage]) -> list[_Near]:
    return sorted(chain(*(_near(claim, each) for each in passages)), key=lambda each: -each.share)


def _near(claim: _Claim, passage: pb.NumberedPassage) -> Iterator[_Near]:
    """Yield the sentences of a passage that hold some of the claim's terms."""
    reading = read(passage)
    language = claim.language or reading.language
    wanted = claim.wanted(language)
    if not wanted:
        return
    sentences = [each for each in reading.sentences(language) if each.segment.kind is not Kind.HEADING]
    above = f"{passage.title}\n{passage.context}"
    above_terms = frozenset(content_terms(above, language))
    for index, sentence in enumerate(sentences):
        held = wanted.intersection(sentence.terms)
        if len(held) < _COMPARED * len(wanted):
            continue
        before, after = sentences[max(index - 1, 0) : index], sentences[index + 1 : index + 2]
        heading = sentence.segment.heading
        around = above_terms.union(content_terms(heading, language), *(each.terms for each in before))
        rest = wanted - held
        wording = WordedText(sentence.text, language)
        told = content_terms(" ".join(told_otherwise(claim.wording(language), wording)), language)
        alike = {term for term in rest if term in told or has_form_of(term, sentence.terms)}
        own = (len(held) + _ALIKE * len(alike)) / len(wanted)
        share = own + _AROUND * len((rest - alike) & around) / len(wanted)
        beside = (each.text for each in (*before, *after))
        yield _Near(passage.number, sentence, wording, "\n".join((above, heading, *beside)), share, own)


def _is_nearly_said(claim: WordedText, near: _Near, found: Deviation) -> bool:
    """Tell whether the sentence has most of a claim's terms besides what is otherwise."""
    language, terms = near.wording.language, near.sentence.terms
    rest = claim.terms - frozenset(content_terms(found.claimed, language))
    held = {term for term in rest if term in terms or is_said_otherwise(term, terms, language)}
    return bool(rest) and len(held) / len(rest) >= _REFUTED


def _likelihood(fitted: tuple[float, float], share: float) -> float:
    """Return the logistic function of a share."""
    weight, bias = fitted
    return 1 / (1 + math.exp(-(weight * share + bias)))


def _refuted(near: _Near, found: Deviation, likelihood: float) -> pb.ClaimVerdict:
    message = f'a passage denies it: "{found.said}"'
    if found.claimed and found.said:
        message = f'a passage has "{found.said}" in place of "{found.claimed}"'
    elif not found.said:
        message = f'a passage says it without "{found.claimed}"'
    return pb.ClaimVerdict(
        verdict=verification_pb2.VERDICT_REFUTED,
        probability=likelihood,
        reason=found.reason,
        message=message,
        words=[found.claimed] if found.claimed else (),
        evidence=[_evidence(near, found.said)],
    )


def _not_found(near: _Near | None, found: Deviation | None = None) -> pb.ClaimVerdict:
    message = "no passage that was found says so"
    if found is not None and found.said:
        message = f'the nearest passage has "{found.said}" in place of "{found.claimed}"'
    elif found is not None:
        message = f'the nearest passage does not have "{found.claimed}"'
    return pb.ClaimVerdict(
        verdict=verification_pb2.VERDICT_NOT_FOUND,
        probability=_likelihood(_NOTHING, near.own if near is not None else 0.0),
        reason=error_pb2.UNSUPPORTED_SENTENCE,
        message=message,
        words=[found.claimed] if found is not None and found.claimed else (),
        evidence=[_evidence(near, found.said if found else "")] if near is not None else (),
    )


def _evidence(near: _Near, words: str = "") -> pb.PassageEvidence:
    segment = near.sentence.segment
    return pb.PassageEvidence(
        passage_number=near.number,
        start_offset=segment.start,
        end_offset=segment.end,
        words=[words] if words else (),
    )
