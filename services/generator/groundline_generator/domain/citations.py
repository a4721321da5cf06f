"""Citation markers in a stream of text, and what a finished answer is checked for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from groundline.v1 import chat_pb2
from groundline.v1.chat_pb2 import Citation, FinishReason, Validation, ValidationIssue
from groundline.v1.generator_service_pb2 import NumberedPassage

from groundline_generator.domain.language import content_terms, guess_language
from groundline_generator.domain.segments import Kind, segments

__all__ = [
    "MarkerFilter",
    "cite",
    "cites",
    "claim_spans",
    "supported_claims",
    "validate",
    "without_markers",
]

_MARKER = re.compile(r"\[(\d{1,4})\]")
_MARKERS = re.compile(r"[\[［【]\s?(\d{1,4}(?:\s?[,;，、]\s?\d{1,4}){0,9})\s?[\]］】]")
"""Every way that models mark sources: `[1]`, `[1, 2]`, and the full-width forms of both."""

# What may still become a marker, or a code quote, when more text comes.
_UNFINISHED = re.compile(r"(?:[ \t]*[\[［【][\d\s,;，、]{0,80}|[ \t]+|(?<!`)`{1,2})$")
_SPACED_MARKERS = re.compile(rf"[ \t]*{_MARKERS.pattern}")
_SPACE = re.compile(r"[ \t]{2,}")
_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]+`", re.DOTALL)

_SUPPORT_SHARE = 0.6
"""A sentence counts as supported when its passages hold at least this share of its terms."""


_LOW_RELEVANCE = 0.4
"""Below it an answer holds less than this share of the question's terms; of such answers most were wrong."""

_ENDINGS = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: ValidationIssue(
        reason="ANSWER_CUT_OFF", message="the answer ended at its limit of tokens"
    ),
    chat_pb2.FINISH_REASON_SAFETY: ValidationIssue(
        reason="ANSWER_WITHHELD", message="the provider withheld the rest of the answer"
    ),
}


def _is_interval(numbers: Sequence[int]) -> bool:
    """Whether brackets hold an interval such as [0, 1]: no passage has the number 0."""
    return 0 in numbers and len(numbers) > 1


def _numbers(marker: re.Match[str]) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", marker.group(1))]


def without_markers(text: str) -> str:
    """A document's text without what would read as citations, such as its own footnote marks."""
    return _SPACED_MARKERS.sub(lambda marker: marker.group() if _is_interval(_numbers(marker)) else "", text)


class MarkerFilter:
    """Removes markers of passages that were not served, however the stream is cut; code is left alone.

    What passes is written `[1]`, whichever way the model wrote it; `[1, 2]` becomes `[1][2]`.
    """

    def __init__(self, numbers: frozenset[int]) -> None:
        self._numbers = numbers
        self._held = ""
        self._fence = ""
        self.unknown: set[int] = set()

    def feed(self, text: str) -> str:
        """Take the next piece; returns what may be sent on, which never ends within a marker."""
        text = self._held + text
        held = _UNFINISHED.search(text)
        cut = held.start() if held else len(text)
        self._held = text[cut:]
        return self._filtered(text[:cut])

    def finish(self) -> str:
        """What is left when the stream has ended."""
        rest, self._held = self._held, ""
        return self._filtered(rest).rstrip()

    def _filtered(self, text: str) -> str:
        pieces = re.split(r"(```|`|\n)", text)
        for index, piece in enumerate(pieces):
            if piece == "\n":
                # An inline quote ends with its line; otherwise one stray mark would switch the filter off.
                self._fence = "" if self._fence == "`" else self._fence
            elif piece in ("`", "```"):
                if not self._fence:
                    self._fence = piece
                elif self._fence == piece:
                    self._fence = ""
            elif not self._fence:
                pieces[index] = _SPACED_MARKERS.sub(self._known, piece)
        return "".join(pieces)

    def _known(self, marker: re.Match[str]) -> str:
        numbers = _numbers(marker)
        if _is_interval(numbers):
            return marker.group()
        known = [number for number in dict.fromkeys(numbers) if number in self._numbers]
        self.unknown.update(set(numbers) - self._numbers)
        if not known:
            return ""
        space = marker.group()[: len(marker.group()) - len(marker.group().lstrip(" \t"))]
        return space + "".join(f"[{number}]" for number in known)


@dataclass(frozen=True, slots=True)
class _Reference:
    """Neighbouring markers and the part of a sentence that they stand for."""

    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence or block of code of the answer, its markers left out of `text`."""

    text: str
    references: tuple[_Reference, ...]
    start: int
    end: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for each in self.references for number in each.numbers))


def cites(answer: str, numbers: frozenset[int]) -> bool:
    """Whether an answer, as a model wrote it, marks any of these sources."""
    return any(
        number in numbers for marker in _MARKERS.finditer(_masked(answer)) for number in _numbers(marker)
    )


def claim_spans(answer: str) -> list[tuple[int, int]]:
    """Where the sentences and blocks of code of an answer stand, markers left out at their ends."""
    return [(claim.start, claim.end) for claim in _claims(answer)]


def supported_claims(answer: str, passages: Mapping[int, NumberedPassage]) -> list[bool]:
    """For each of `claim_spans`, whether the passages it cites hold its terms; where it cites none, any
    may."""
    known = {number: _Evidence(passage) for number, passage in passages.items()}
    verdicts = []
    for claim in _claims(answer):
        evidence = [known[number] for number in claim.numbers if number in known] or list(known.values())
        verdicts.append(bool(evidence) and _is_supported(claim.text, evidence))
    return verdicts


def cite(answer: str, passages: Mapping[int, NumberedPassage]) -> list[Citation]:
    """One citation for each marker, in order, with the sentence of its passage that supports it best."""
    evidence = {number: _Evidence(passage) for number, passage in passages.items()}
    return [
        Citation(
            source_number=number,
            start_offset=reference.start,
            end_offset=reference.end,
            supporting_text=evidence[number].best_sentence(answer[reference.start : reference.end]),
            chunk_id=passages[number].chunk_id,
        )
        for claim in _claims(answer)
        for reference in claim.references
        for number in reference.numbers
        if number in passages
    ]


def validate(
    query: str,
    answer: str,
    passages: Mapping[int, NumberedPassage],
    finish_reason: FinishReason.ValueType,
    found: Sequence[ValidationIssue] = (),
    verdicts: Sequence[bool] | None = None,
) -> Validation:
    """Check a finished answer against its passages by the terms they share.

    `verdicts`, one for each of `claim_spans`, take the place of that comparison where a judge has given them.
    An answer is grounded when every sentence is cited and supported; its confidence is the product of the
    shares of cited and supported sentences and the relevance to the question.
    """
    issues = list(found)
    if finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER:
        reason = "NO_SUPPORTING_PASSAGE" if passages else "NO_PASSAGES"
        message = "no passage supports an answer" if passages else "no passage was given"
        return Validation(issues=[*issues, _issue(reason, message)])
    if (ending := _ENDINGS.get(finish_reason)) is not None:
        issues.append(ending)
    claims = _claims(answer)
    if not claims:
        return Validation(issues=[*issues, _issue("EMPTY_ANSWER", "the answer has no content")])
    known = {number: _Evidence(passage) for number, passage in passages.items()}
    cited = supported = 0
    for index, claim in enumerate(claims):
        text = claim.text
        evidence = [known[number] for number in claim.numbers if number in known]
        if not evidence:
            issues.append(_issue("UNCITED_SENTENCE", f"no source is cited for: {_shortened(text)}"))
            continue
        cited += 1
        if verdicts[index] if verdicts is not None else _is_supported(text, evidence):
            supported += 1
        else:
            issues.append(_issue("UNSUPPORTED_SENTENCE", f"its sources do not support: {_shortened(text)}"))
    relevance = _query_relevance(
        query, answer, [passages[n] for c in claims for n in c.numbers if n in passages]
    )
    if relevance < _LOW_RELEVANCE:
        issues.append(_issue("LOW_RELEVANCE", "the answer says little of what was asked for"))
    cited_share, supported_share = cited / len(claims), supported / len(claims)
    return Validation(
        grounded=supported == len(claims),
        confidence=cited_share * supported_share * relevance,
        cited_share=cited_share,
        supported_share=supported_share,
        query_relevance=relevance,
        issues=issues,
    )


def _claims(answer: str) -> list[_Claim]:
    """Sentences and blocks of code with the markers in them or right behind them."""
    masked = _masked(answer)
    markers = list(_MARKER.finditer(masked))
    # Spaces in place of the markers keep every offset and let sentences end where they would without them.
    bare = _MARKER.sub(lambda marker: " " * len(marker.group()), masked)
    quotable = [each for each in segments(bare, guess_language(answer)) if each.kind is not Kind.HEADING]
    claims = []
    for index, segment in enumerate(quotable):
        limit = quotable[index + 1].start if index + 1 < len(quotable) else len(answer)
        own = [marker for marker in markers if segment.start <= marker.start() and marker.end() <= limit]
        references = tuple(_references(bare, segment.start, segment.end, own))
        text = bare[segment.start : segment.end]
        end = segment.start + len(text.rstrip())
        claims.append(_Claim(_SPACE.sub(" ", text), references, segment.start, end))
    return claims


def _references(bare: str, start: int, end: int, markers: Sequence[re.Match[str]]) -> Iterator[_Reference]:
    """Each group of markers with what stands between the group before and itself."""
    index = 0
    while index < len(markers):
        first = last = index
        while last + 1 < len(markers) and not bare[markers[first].start() : markers[last + 1].end()].strip():
            last += 1
        stop = min(end, markers[first].start())
        while stop > start and bare[stop - 1].isspace():
            stop -= 1
        yield _Reference(start, stop, tuple(int(m.group(1)) for m in markers[first : last + 1]))
        following = markers[last].end()
        start = following + (len(bare[following:]) - len(bare[following:].lstrip()))
        index = last + 1


def _masked(answer: str) -> str:
    """The answer with brackets inside code made harmless; offsets stay."""
    return _CODE.sub(lambda code: code.group().replace("[", "(").replace("]", ")"), answer)


class _Evidence:
    """A passage taken apart once, however often it is cited."""

    def __init__(self, passage: NumberedPassage) -> None:
        self._passage = passage
        self._by_language: dict[str | None, frozenset[str]] = {}

    @cached_property
    def language(self) -> str | None:
        return guess_language(self._passage.text)

    @cached_property
    def _sentences(self) -> list[tuple[str, frozenset[str]]]:
        text = self._passage.text
        sentences = (text[each.start : each.end] for each in segments(text, self.language))
        return [(sentence, frozenset(content_terms(sentence, self.language))) for sentence in sentences]

    def best_sentence(self, claim: str) -> str:
        """The sentence that shares the most terms with a claim; empty where none shares any."""
        wanted = frozenset(content_terms(claim, self.language))
        best, best_score = "", 0.0
        for sentence, terms in self._sentences:
            if terms and (score := len(wanted & terms) / len(wanted | terms)) > best_score:
                best, best_score = sentence, score
        return best

    def terms(self, language: str | None) -> frozenset[str]:
        """The terms of title, context and text, read as one language."""
        if language not in self._by_language:
            passage = self._passage
            text = f"{passage.title} {passage.context} {passage.text}"
            self._by_language[language] = frozenset(content_terms(text, language))
        return self._by_language[language]


def _is_supported(claim: str, evidence: Sequence[_Evidence]) -> bool:
    language = guess_language(claim) or evidence[0].language
    wanted = frozenset(content_terms(claim, language))
    held = frozenset[str]().union(*(each.terms(language) for each in evidence))
    return not wanted or len(wanted & held) / len(wanted) >= _SUPPORT_SHARE


def _query_relevance(query: str, answer: str, cited: Sequence[NumberedPassage]) -> float:
    """Share of the question's terms in the answer or in the title or context of a cited passage."""
    language = guess_language(query) or guess_language(answer)
    wanted = frozenset(content_terms(query, language))
    placed = " ".join(f"{passage.title} {passage.context}" for passage in cited)
    held = frozenset(content_terms(f"{answer} {placed}", language))
    return len(wanted & held) / len(wanted) if wanted else 1.0


def _issue(reason: str, message: str) -> ValidationIssue:
    return ValidationIssue(reason=reason, message=message)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
