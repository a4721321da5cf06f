"""Extraction of the sentences that answer a question, without a model.

A sentence scores by the question's terms that it holds, each weighted by its rarity among the passages'
sentences; terms beside it (neighbouring sentences, headings, title, the rest of its passage) count in part.
The kind of answer that a question asks for (a number, a date, a name) and the passage's rank and similarity
tip the balance.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Final

from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.language import content_terms, guess_language
from groundline_generator.domain.markers import without_markers
from groundline_generator.domain.reading import Reading, Sentence, read
from groundline_generator.domain.segments import Kind
from groundline_generator.domain.signs import (
    COUNTED,
    beginning,
    designated,
    designations,
    names,
    quantities,
    words,
)

__all__ = ["Extract", "Extraction", "extract"]

# Credit for a question term by where it stands relative to the sentence.
_IN_SENTENCE: Final = 1.0
_BESIDE: Final = 0.6
_IN_HEADING: Final = 0.7
_REFERRED_TO: Final = 0.8
_IN_PASSAGE: Final = 0.4

# Okapi BM25's usual saturation; sentences differ in length for reasons that say little, hence the low b.
_K1: Final = 1.2
_B: Final = 0.4

_KIND_OF_ANSWER_BONUS: Final = 1.2
_RANK_PRIOR: Final = 0.25
_SIMILARITY_PRIOR: Final = 0.5

_SIMILARITY_SHARE: Final = 1 / 2
"""Share of the similarity in the relevance, if it is known; the coverage of terms is the rest."""

_GERMAN_NOUN_WEIGHT: Final = 1.5
"""Weight of German nouns, which have a capital and name what a question is about; verbs and adjectives are
rephrased more often."""

_OTHER_SUBJECT: Final = 0.5
"""Factor of the relevance where the passages speak of others than the question."""

_TYPING_ERROR: Final = 0.8
"""Minimum similarity (difflib's ratio) of a name to one that is spelled right."""

_FURTHER_SHARE: Final = 0.7
"""Minimum score of a further sentence, as a share of the best."""

_DUPLICATE_OVERLAP: Final = 0.7
"""Jaccard overlap of terms from which a sentence repeats a quoted one."""

_MAX_QUOTE_CHARACTERS: Final = 1_200

# Words that share this much of their beginning, or of which one holds the other, count as forms of one word.
_MIN_VARIANT_LENGTH: Final = 5
_VARIANT_PREFIX_SHARE: Final = 0.7

_SPACE: Final = re.compile(r"\s+")
_DIGIT: Final = re.compile(r"\d")

_QUANTITY: Final = re.compile(
    r"\bhow (?:many|much|long|old|far|often|large|big|high|tall|deep|fast)\b|\bwhat (?:percent|number|share)"
    r"|\bwie ?(?:viele?|lange|alt|weit|oft|groß|hoch|tief|schnell|häufig)\b"
    r"|\bwelche[rn]? (?:anteil|anzahl|zahl)",
    re.IGNORECASE,
)
_TIME: Final = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|decade|century)\b"
    r"|\bwann\b|\bwelche[mnrs]? (?:jahr|datum|tag|monat|jahrzehnt|jahrhundert)",
    re.IGNORECASE,
)
_PERSON: Final = re.compile(r"\bwho(?:m|se)?\b|\bwe[rnm]\b|\bwessen\b", re.IGNORECASE)

_NUMBER: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion"
    r"|half|twice|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|millionen?|halb|doppelt)\b",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"\b\d{3,4}\b|\b\d{1,2}[./]\d{1,2}\b|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|century|Jahrhundert)\b"
)
# A sentence that begins so is about what the one before it names.
_REFERS_BACK: Final = re.compile(
    r"(?:he|she|it|they|his|her|its|their|this|these|that|those|there|then"
    r"|er|sie|es|sein|seine[nrms]?|ihre?[nrms]?|dies|diese[nrms]?|dort|dabei|damit|dadurch|danach|daraufhin)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<![.!?:] )(?<!^)\b[A-ZÄÖÜ][\w'’-]+")


@dataclass(frozen=True, slots=True)
class Extract:
    """A sentence to quote from passage `number`; `text` is one line unless it is code."""

    number: int
    text: str
    is_code: bool


@dataclass(frozen=True, slots=True)
class Extraction:
    """Sentences to quote, in order, and the relevance (0 to 1) of the best candidate.

    Empty if that relevance is too low.
    """

    extracts: Sequence[Extract]
    relevance: float


@dataclass(slots=True)
class _Candidate:
    """A sentence of a passage. `hits` counts the question's terms in it, `size` all of its terms."""

    passage: int
    position: int
    sentence: Sentence
    hits: dict[str, int]
    size: int
    in_heading: frozenset[str]
    score: float = 0.0
    relevance: float = 0.0


@dataclass(frozen=True, slots=True)
class _Query:
    weights: Mapping[str, float]
    total: float
    asked_for: re.Pattern[str] | None


def extract(
    query: str,
    passages: Sequence[pb.NumberedPassage],
    *,
    min_relevance: float,
    max_sentences: int,
    checkpoint: Callable[[], None] = lambda: None,
) -> Extraction:
    """Choose at most `max_sentences` from passages that come best first.

    `checkpoint` is called before each passage; it may raise to stop the work.
    """
    readings = [read(passage.text) for passage in passages]
    language = guess_language(query) or next((each.language for each in readings if each.language), None)
    wanted = frozenset(content_terms(query, language))
    by_passage: list[list[_Candidate]] = []
    for index, (passage, reading) in enumerate(zip(passages, readings, strict=True)):
        checkpoint()
        by_passage.append(_candidates(index, passage, reading, reading.language or language, wanted))
    candidates = [candidate for members in by_passage for candidate in members]
    _accept_variants(wanted, candidates)
    asked = _weighted(query, wanted, language, candidates)
    if not candidates or asked.total == 0:
        return Extraction((), 0.0)
    average = sum(candidate.size for candidate in candidates) / len(candidates) or 1.0
    for index, members in enumerate(by_passage):
        checkpoint()
        _score(asked, passages[index], index, members, average)
    quotable = sorted(
        (candidate for candidate in candidates if candidate.sentence.segment.kind is not Kind.HEADING),
        key=lambda candidate: (-candidate.score, candidate.passage, candidate.position),
    )
    relevance = quotable[0].relevance if quotable else 0.0
    if relevance >= min_relevance and _is_of_others(query, language, passages):
        relevance *= _OTHER_SUBJECT
    if not quotable or relevance < min_relevance:
        return Extraction((), relevance)
    chosen = _in_reading_order(_choose(quotable, max_sentences))
    extracts = tuple(
        Extract(passages[c.passage].number, _quotation(c), c.sentence.segment.kind is Kind.CODE)
        for c in chosen
    )
    return Extraction(extracts, relevance)


def _is_of_others(query: str, language: str | None, passages: Sequence[pb.NumberedPassage]) -> bool:
    """Tell whether no passage has some number, designation or name of the question, a typing error aside."""
    text = "\n".join(f"{passage.title}\n{passage.context}\n{passage.text}" for passage in passages)
    numbers = [quantity for quantity in quantities(query) if quantity.shown not in COUNTED]
    held = list(quantities(text)) if numbers else []
    if any(not any(one.is_of_value(number) for one in held) for number in numbers):
        return True
    known = designations(text)
    if any(key not in known for _, key in designated(query)):
        return True
    begun = words(text)
    missing = [name for name in names(query, language) if beginning(name) not in begun]
    if not missing:
        return False
    spoken = frozenset(text.split())
    return any(not get_close_matches(name, spoken, 1, _TYPING_ERROR) for name in missing)


def _candidates(
    index: int, passage: pb.NumberedPassage, reading: Reading, language: str | None, wanted: frozenset[str]
) -> list[_Candidate]:
    above = wanted.intersection(content_terms(f"{passage.title} {passage.context}", language))
    in_headings: dict[str, frozenset[str]] = {}
    found: list[_Candidate] = []
    for position, sentence in enumerate(reading.sentences(language)):
        heading, terms = sentence.segment.heading, sentence.terms
        in_heading = in_headings.get(heading)
        if in_heading is None:
            in_heading = in_headings[heading] = above.union(
                wanted.intersection(content_terms(heading, language))
            )
        # Most sentences hold none of them, which is faster to tell than which ones they hold.
        held = () if wanted.isdisjoint(terms) else wanted.intersection(terms)
        hits = {term: terms.count(term) for term in held}
        found.append(_Candidate(index, position, sentence, hits, len(terms), in_heading))
    return found


def _accept_variants(wanted: frozenset[str], candidates: Sequence[_Candidate]) -> None:
    """Match a question's term that no sentence holds with its inflections and compounds that some hold."""
    met = frozenset(term for candidate in candidates for term in candidate.hits)
    unmet = [term for term in wanted - met if len(term) >= _MIN_VARIANT_LENGTH]
    if not unmet:
        return
    vocabulary = frozenset(chain.from_iterable(candidate.sentence.terms for candidate in candidates))
    long_enough = [other for other in vocabulary if len(other) >= _MIN_VARIANT_LENGTH]
    for term in unmet:
        variants = frozenset(other for other in long_enough if _is_variant(term, other))
        if not variants:
            continue
        for candidate in candidates:
            if not variants.isdisjoint(candidate.sentence.terms):
                occurrences = sum(other in variants for other in candidate.sentence.terms)
                candidate.hits[term] = occurrences
                candidate.size += occurrences


def _is_variant(term: str, other: str) -> bool:
    """Tell whether two terms of at least `_MIN_VARIANT_LENGTH` are forms of one word."""
    if term in other or other in term:
        return True
    shared = max(_MIN_VARIANT_LENGTH, math.ceil(_VARIANT_PREFIX_SHARE * max(len(term), len(other))))
    return term[:shared] == other[:shared]


def _weighted(
    query: str, wanted: frozenset[str], language: str | None, candidates: Sequence[_Candidate]
) -> _Query:
    """Return the question's terms with their inverse sentence frequency; one that no sentence holds weighs
    most."""
    count = len(candidates)
    frequencies = Counter(chain.from_iterable(candidate.hits for candidate in candidates))
    weights = {
        term: math.log(1 + (count - frequencies[term] + 0.5) / (frequencies[term] + 0.5)) for term in wanted
    }
    if language == "german":
        for noun in _nouns(query) & wanted:
            weights[noun] *= _GERMAN_NOUN_WEIGHT
    return _Query(weights, sum(weights.values()), _asked_for(query))


def _nouns(query: str) -> frozenset[str]:
    """Return the terms of a German question that begin with a capital, except its first word."""
    capitalized = " ".join(word for word in query.split()[1:] if word[:1].isupper())
    return frozenset(content_terms(capitalized, "german"))


def _asked_for(query: str) -> re.Pattern[str] | None:
    for question, answer in ((_QUANTITY, _NUMBER), (_TIME, _DATE), (_PERSON, _NAME)):
        if question.search(query):
            return answer
    return None


def _score(
    asked: _Query, passage: pb.NumberedPassage, rank: int, members: Sequence[_Candidate], average: float
) -> None:
    in_passage = frozenset(chain.from_iterable(member.hits for member in members))
    known = passage.HasField("similarity")
    similarity = max(0.0, passage.similarity)
    prior = 1 + _RANK_PRIOR / (rank + 1) + _SIMILARITY_PRIOR * similarity
    nothing: Mapping[str, int] = {}
    # For sentences that hold no term, and whose neighbours do not, only the headings make a difference.
    far_off: dict[frozenset[str], tuple[float, float]] = {}
    for position, member in enumerate(members):
        previous = members[position - 1].hits if position else nothing
        following = members[position + 1].hits if position + 1 < len(members) else nothing
        if member.hits or previous or following:
            score, covered = _credited(asked, member, previous, following, in_passage, average)
        else:
            if member.in_heading not in far_off:
                far_off[member.in_heading] = _credited(
                    asked, member, previous, following, in_passage, average
                )
            score, covered = far_off[member.in_heading]
        if score and asked.asked_for and _new_match(asked.asked_for, member, asked.weights):
            score *= _KIND_OF_ANSWER_BONUS
        member.score = score * prior
        member.relevance = covered / asked.total
        if known:
            member.relevance += _SIMILARITY_SHARE * (similarity - member.relevance)


def _credited(
    asked: _Query,
    member: _Candidate,
    previous: Container[str],
    following: Container[str],
    in_passage: Container[str],
    average: float,
) -> tuple[float, float]:
    """Return the score of a sentence and the weight of the question's terms that count: those that it holds,
    and in part those of the sentences beside it, its headings and its passage."""
    refers_back = bool(previous) and _REFERS_BACK.match(member.sentence.text) is not None
    length = 1 - _B + _B * member.size / average
    score = covered = 0.0
    for term, weight in asked.weights.items():
        if occurrences := member.hits.get(term):
            score += weight * occurrences * (_K1 + 1) / (occurrences + _K1 * length)
            covered += weight * _IN_SENTENCE
            continue
        if refers_back and term in previous:
            score += weight * _REFERRED_TO
            covered += weight * _REFERRED_TO
            continue
        if term in member.in_heading:
            credit = _IN_HEADING
        elif term in previous or term in following:
            credit = _BESIDE
        elif term in in_passage:
            credit = _IN_PASSAGE
        else:
            continue
        score += weight * credit / 2
        covered += weight * credit
    return score, covered


def _new_match(pattern: re.Pattern[str], member: _Candidate, known: Container[str]) -> bool:
    """Tell whether the sentence holds the kind of answer asked for, other than what the question itself
    names."""
    return any(match.group().casefold() not in known for match in pattern.finditer(member.sentence.text))


def _choose(ranked: Sequence[_Candidate], max_sentences: int) -> list[_Candidate]:
    best = ranked[0]
    # If the question names something with a number (a model, a version), the document must be about it: a
    # sentence on another model answers another question, however similar it is otherwise.
    designations = {term for term in best.in_heading if _DIGIT.search(term)}
    chosen: list[_Candidate] = []
    for candidate in ranked:
        if len(chosen) == max_sentences:
            break
        if candidate.score < _FURTHER_SHARE * best.score:
            break
        if not candidate.hits or not designations <= candidate.in_heading.union(candidate.hits):
            continue
        if all(_overlap(candidate, other) < _DUPLICATE_OVERLAP for other in chosen):
            chosen.append(candidate)
    return chosen


def _overlap(first: _Candidate, second: _Candidate) -> float:
    ours, theirs = {*first.sentence.terms, *first.hits}, {*second.sentence.terms, *second.hits}
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 1.0


def _in_reading_order(chosen: Sequence[_Candidate]) -> list[_Candidate]:
    """Order passages by their best sentence, and sentences as in their passage."""
    order = list(dict.fromkeys(candidate.passage for candidate in chosen))
    return sorted(chosen, key=lambda candidate: (order.index(candidate.passage), candidate.position))


def _quotation(candidate: _Candidate) -> str:
    if candidate.sentence.segment.kind is Kind.CODE:
        return candidate.sentence.text.rstrip()[:_MAX_QUOTE_CHARACTERS]
    # The document's own footnote marks would read as citations.
    text = _SPACE.sub(" ", without_markers(candidate.sentence.text)).strip()
    if len(text) > _MAX_QUOTE_CHARACTERS:
        text = text[:_MAX_QUOTE_CHARACTERS].rsplit(" ", 1)[0] + " …"
    return text
