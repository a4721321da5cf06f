"""Picks the sentences of the passages that answer a question, without a model.

A sentence scores by the question's terms that it holds, each weighted by its rarity among the passages'
sentences; terms that stand beside it (neighbouring sentences, headings, title, the rest of its passage) count
in part. What a question asks for (a number, a date, a name) and the passage's rank and similarity tip the
balance.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from groundline.v1.generator_service_pb2 import NumberedPassage

from groundline_generator.domain.citations import without_markers
from groundline_generator.domain.language import content_terms, guess_language
from groundline_generator.domain.segments import Kind, Segment, segments

__all__ = ["Extract", "Extraction", "extract"]

# Credit for a question term by where it stands relative to the sentence.
_IN_SENTENCE = 1.0
_BESIDE = 0.6
_IN_HEADING = 0.7
_REFERRED_TO = 0.8
_IN_PASSAGE = 0.4

# Okapi BM25's usual saturation; sentences differ in length for reasons that say little, hence the low b.
_K1 = 1.2
_B = 0.4

_KIND_OF_ANSWER_BONUS = 1.2
_RANK_PRIOR = 0.25
_SIMILARITY_PRIOR = 0.5

_SIMILARITY_SHARE = 1 / 2
"""Share of the similarity in the relevance, where it is known; the terms' coverage is the rest."""

_GERMAN_NOUN_WEIGHT = 1.5
"""German writes nouns with a capital, and they say what a question is about; verbs and adjectives are worded
anew more often."""

_FURTHER_SHARE = 0.7
_FURTHER_SHARE_BESIDE = 0.6
"""A further sentence is quoted when it scores at least this share of the best, the second where it is of the
same passage: what the best leaves out stands there rather than elsewhere."""

_DUPLICATE_OVERLAP = 0.7
"""Jaccard overlap of terms from which a sentence repeats one that is quoted already."""

_MAX_QUOTE_CHARACTERS = 1_200

# Words that share this much of their beginning, or of which one holds the other, count as forms of one word.
_MIN_VARIANT_LENGTH = 5
_VARIANT_PREFIX_SHARE = 0.7

_SPACE = re.compile(r"\s+")

_QUANTITY = re.compile(
    r"\bhow (?:many|much|long|old|far|often|large|big|high|tall|deep|fast)\b|\bwhat (?:percent|number|share)"
    r"|\bwie ?(?:viele?|lange|alt|weit|oft|groß|hoch|tief|schnell|häufig)\b"
    r"|\bwelche[rn]? (?:anteil|anzahl|zahl)",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)\b"
    r"|\bwann\b|\bwelche[mnrs]? (?:jahr|datum|tag|monat|jahrzehnt|jahrhundert)",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\bwho(?:m|se)?\b|\bwe[rnm]\b|\bwessen\b", re.IGNORECASE)

_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion"
    r"|half|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|millionen?|halb|doppelt)\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b\d{3,4}\b|\b\d{1,2}[./]\d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|century|Jahrhundert)\b"
)
# A sentence that begins so is about what the one before it names.
_REFERS_BACK = re.compile(
    r"(?:he|she|it|they|his|her|its|their|this|these|that|those|there|then"
    r"|er|sie|es|sein|seine[nrms]?|ihre?[nrms]?|dies|diese[nrms]?|dort|dabei|damit|dadurch|danach|daraufhin)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w'’-]+")


@dataclass(frozen=True, slots=True)
class Extract:
    """A sentence to quote from passage `number`; `text` is one line unless it is code."""

    number: int
    text: str
    is_code: bool


@dataclass(frozen=True, slots=True)
class Extraction:
    """What to quote, in the order to quote it, and the relevance (0 to 1) of the best candidate.

    Nothing is quoted when that relevance is too low.
    """

    extracts: Sequence[Extract]
    relevance: float


@dataclass(slots=True)
class _Candidate:
    passage: int
    position: int
    segment: Segment
    text: str
    terms: Counter[str]
    heading_terms: frozenset[str]
    score: float = 0.0
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Query:
    weights: Mapping[str, float]
    total: float
    asked_for: re.Pattern[str] | None
    terms: frozenset[str]


def extract(
    query: str,
    passages: Sequence[NumberedPassage],
    *,
    min_relevance: float,
    max_sentences: int,
    checkpoint: Callable[[], None] = lambda: None,
) -> Extraction:
    """Choose at most `max_sentences` from passages that come best first.

    `checkpoint` is called before each passage; it may raise to stop the work.
    """
    languages = [guess_language(passage.text) for passage in passages]
    language = guess_language(query) or next((name for name in languages if name), None)
    candidates: list[_Candidate] = []
    for index, (passage, own) in enumerate(zip(passages, languages, strict=True)):
        checkpoint()
        candidates.extend(_candidates(index, passage, own or language))
    _accept_variants(content_terms(query, language), candidates)
    asked = _weighted(query, language, candidates)
    if not candidates or asked.total == 0:
        return Extraction((), 0.0)
    by_passage: dict[int, list[_Candidate]] = {}
    for candidate in candidates:
        by_passage.setdefault(candidate.passage, []).append(candidate)
    average = sum(candidate.terms.total() for candidate in candidates) / len(candidates) or 1.0
    for index, members in by_passage.items():
        checkpoint()
        _score(asked, passages[index], index, members, average)
    quotable = sorted(
        (candidate for candidate in candidates if candidate.segment.kind is not Kind.HEADING),
        key=lambda candidate: (-candidate.score, candidate.passage, candidate.position),
    )
    if not quotable or quotable[0].relevance < min_relevance:
        return Extraction((), max((c.relevance for c in quotable), default=0.0))
    chosen = _in_reading_order(_choose(asked, quotable, max_sentences))
    extracts = tuple(
        Extract(passages[c.passage].number, _quotation(c), c.segment.kind is Kind.CODE) for c in chosen
    )
    return Extraction(extracts, quotable[0].relevance)


def _candidates(index: int, passage: NumberedPassage, language: str | None) -> list[_Candidate]:
    passage_text = passage.text
    above = frozenset(content_terms(f"{passage.title} {passage.context}", language))
    return [
        _Candidate(
            passage=index,
            position=position,
            segment=segment,
            text=(text := passage_text[segment.start : segment.end]),
            terms=Counter(content_terms(text, language)),
            heading_terms=above | frozenset(content_terms(segment.heading, language)),
        )
        for position, segment in enumerate(segments(passage_text, language))
    ]


def _accept_variants(terms: Sequence[str], candidates: Sequence[_Candidate]) -> None:
    """Let a question's term that no sentence holds be met by inflections and compounds of it that some do."""
    vocabulary = frozenset(term for candidate in candidates for term in candidate.terms)
    for term in frozenset(terms) - vocabulary:
        if variants := [other for other in vocabulary if _is_variant(term, other)]:
            for candidate in candidates:
                if occurrences := sum(candidate.terms[other] for other in variants):
                    candidate.terms[term] = occurrences


def _is_variant(term: str, other: str) -> bool:
    shorter, longer = sorted((term, other), key=len)
    if len(shorter) < _MIN_VARIANT_LENGTH:
        return False
    if shorter in longer:
        return True
    common = next((i for i, pair in enumerate(zip(shorter, longer, strict=False)) if pair[0] != pair[1]), 0)
    return common >= _MIN_VARIANT_LENGTH and common >= _VARIANT_PREFIX_SHARE * len(longer)


def _weighted(query: str, language: str | None, candidates: Sequence[_Candidate]) -> _Query:
    """The question's terms with their inverse sentence frequency; one that no sentence holds weighs most."""
    terms = frozenset(content_terms(query, language))
    count = len(candidates)
    weights = {}
    for term in terms:
        frequency = sum(term in candidate.terms for candidate in candidates)
        weights[term] = math.log(1 + (count - frequency + 0.5) / (frequency + 0.5))
    if language == "german":
        for noun in _nouns(query) & terms:
            weights[noun] *= _GERMAN_NOUN_WEIGHT
    return _Query(weights, sum(weights.values()), _asked_for(query), terms)


def _nouns(query: str) -> frozenset[str]:
    """The terms of a German question that begin with a capital; its first word would anyway."""
    capitalized = " ".join(word for word in query.split()[1:] if word[:1].isupper())
    return frozenset(content_terms(capitalized, "german"))


def _asked_for(query: str) -> re.Pattern[str] | None:
    for question, answer in ((_QUANTITY, _NUMBER), (_TIME, _DATE), (_PERSON, _NAME)):
        if question.search(query):
            return answer
    return None


def _score(
    asked: _Query, passage: NumberedPassage, rank: int, members: Sequence[_Candidate], average: float
) -> None:
    in_passage = frozenset(term for member in members for term in member.terms)
    known = passage.HasField("similarity")
    similarity = max(0.0, passage.similarity)
    prior = 1 + _RANK_PRIOR / (rank + 1) + _SIMILARITY_PRIOR * similarity
    for position, member in enumerate(members):
        beside = frozenset(
            term
            for neighbour in members[max(0, position - 1) : position + 2]
            if neighbour is not member
            for term in neighbour.terms
        )
        before = members[position - 1].terms if position and _REFERS_BACK.match(member.text) else Counter()
        length = 1 - _B + _B * member.terms.total() / average
        score = covered = 0.0
        for term, weight in asked.weights.items():
            if occurrences := member.terms[term]:
                score += weight * occurrences * (_K1 + 1) / (occurrences + _K1 * length)
                covered += weight * _IN_SENTENCE
                continue
            if before[term]:
                score += weight * _REFERRED_TO
                covered += weight * _REFERRED_TO
                continue
            credit = (
                _IN_HEADING
                if term in member.heading_terms
                else _BESIDE
                if term in beside
                else _IN_PASSAGE
                if term in in_passage
                else 0.0
            )
            score += weight * credit / 2
            covered += weight * credit
        if asked.asked_for and _new_match(asked.asked_for, member, asked.terms):
            score *= _KIND_OF_ANSWER_BONUS
        member.score = score * prior
        member.relevance = covered / asked.total
        if known:
            member.relevance += _SIMILARITY_SHARE * (similarity - member.relevance)


def _new_match(pattern: re.Pattern[str], member: _Candidate, known: frozenset[str]) -> bool:
    """Whether the sentence holds what is asked for, other than what the question itself names."""
    return any(match.group().casefold() not in known for match in pattern.finditer(member.text))


def _choose(asked: _Query, ranked: Sequence[_Candidate], max_sentences: int) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    for candidate in ranked:
        if len(chosen) == max_sentences:
            break
        beside = candidate.passage == ranked[0].passage
        if candidate.score < (_FURTHER_SHARE_BESIDE if beside else _FURTHER_SHARE) * ranked[0].score:
            continue
        if not asked.terms & candidate.terms.keys():
            continue
        if all(_overlap(candidate.terms, other.terms) < _DUPLICATE_OVERLAP for other in chosen):
            chosen.append(candidate)
    return chosen


def _overlap(first: Counter[str], second: Counter[str]) -> float:
    union = len(first.keys() | second.keys())
    return len(first.keys() & second.keys()) / union if union else 1.0


def _in_reading_order(chosen: Sequence[_Candidate]) -> list[_Candidate]:
    """Passages by their best sentence, sentences as their passage has them."""
    order = list(dict.fromkeys(candidate.passage for candidate in chosen))
    return sorted(chosen, key=lambda candidate: (order.index(candidate.passage), candidate.position))


def _quotation(candidate: _Candidate) -> str:
    if candidate.segment.kind is Kind.CODE:
        return candidate.text.rstrip()[:_MAX_QUOTE_CHARACTERS]
    # The document's own footnote marks would read as citations.
    text = _SPACE.sub(" ", without_markers(candidate.text)).strip()
    if len(text) > _MAX_QUOTE_CHARACTERS:
        text = text[:_MAX_QUOTE_CHARACTERS].rsplit(" ", 1)[0] + " …"
    return text
