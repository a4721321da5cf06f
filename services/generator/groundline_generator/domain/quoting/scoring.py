"""Scores of sentences: how much of a question each of them, and what stands around it, answers.

A sentence scores by the question's terms that it holds, each weighted by its rarity among the passages'
sentences; terms beside it (neighbouring sentences, headings, title, the rest of its passage) count in part.
Words that mean the same, and translations between English and German, count as the question's own if its own
are missing. The kind of answer that a question asks for (a number, a date, a name, steps) and the passage's
rank and similarity tip the balance.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.concepts import is_grammatical, is_known_whole, is_part, related
from groundline_language.terms import content_terms

from groundline_generator.domain.asking.asked import (
    NUMBER,
    asked_for,
    asking_words,
    asks_for_steps,
    has_another,
)
from groundline_generator.domain.asking.counting import Counted, counts, counts_by_name
from groundline_generator.domain.asking.negations import contraries, denies
from groundline_generator.domain.forms import (
    MIN_VARIANT_LENGTH,
    begin_alike,
    is_variant,
    parts_among,
    verb_forms,
)
from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.quoting.quotation import quotation
from groundline_generator.domain.reading import Reading
from groundline_generator.domain.segments import Kind, without_header

# Credit for a question term by where it stands relative to the sentence.
_IN_SENTENCE: Final = 1.0
_BESIDE: Final = 0.6
_IN_HEADING: Final = 0.7
_NAMED_IN_HEADING: Final = 1.0
_REFERRED_TO: Final = 0.8
_IN_PASSAGE: Final = 0.4
_IN_OTHER_WORDS: Final = 0.8

# Okapi BM25's usual saturation; sentences differ in length for reasons that say little, hence the low b.
_K1: Final = 1.2
_B: Final = 0.4

_MIN_SENTENCES: Final = 20
"""Minimum number of sentences that terms are weighted by, some four passages: of the few sentences of one
passage most hold what the question is about, which would then weigh nothing."""

_KIND_OF_ANSWER_BONUS: Final = 1.2
_RANK_PRIOR: Final = 0.25
_SIMILARITY_PRIOR: Final = 0.5

_SIMILARITY_SHARE: Final = 1 / 2
"""Share of the similarity in the relevance, if it is known; the coverage of terms is the rest."""

_SIMILARITY_SHARE_UNKNOWN: Final = 1 / 3
"""The same if the model is not known to know the question's language, where similarities tell less, and are
lower for all passages."""

_SIMILARITY_SHARE_BETWEEN: Final = 0.6
"""The share between two languages, where fewer terms are recognized."""

_BETWEEN_LANGUAGES: Final = 0.02
"""Addition to the similarity between two languages, with which .85 is refused on one half of the articles of
xquad if the paragraph that answers is removed."""

_GERMAN_NOUN_WEIGHT: Final = 1.5
"""Weight of German nouns, which have a capital and name what a question is about; verbs and adjectives are
rephrased more often."""

_ASKING_WEIGHT: Final = 0.3
"""Weight of the words that name the kind of answer, as a share of what it would be."""

_ENDS_WITH_VERB: Final = re.compile(r"\b[a-zäöüß]{4,}[nt](?:\s+(?:werden|sein|haben))?\W*$")
"""The verb at the end of a German question, an infinitive or a participle."""

_FRAGMENT: Final = 0.5
"""Factor for table rows, fragments and what refers back, where steps are asked for."""

_FRAGMENT_WORDS: Final = 4
"""Number of words below which a sentence tells nobody what to do."""

# Two languages end words of one origin in different ways: "production" and "Produktion".
_MIN_COGNATE_LENGTH: Final = 4
_COGNATE_PREFIX_SHARE: Final = 0.6
_SPELT_ALIKE: Final = str.maketrans({"k": "c", "z": "c", "y": "i", "ä": "a", "ö": "o", "ü": "u", "ß": "s"})


@dataclass(frozen=True, slots=True)
class _Weighted:
    """The question's terms with their weights."""

    weights: Mapping[str, float]
    total: float
    language: str | None
    names: frozenset[str]
    required: frozenset[str]
    asked_for: re.Pattern[str] | None
    counted: Counted
    asks_for_steps: bool
    matter: Mapping[str, float]
    """The weights without those of terms by which the question asks what is not so."""
    total_matter: float
    validity: frozenset[str]

    def share_of(self, terms: frozenset[str]) -> float:
        """Return the weighted share of what the question is about that some terms have."""
        held = sum(self.matter.get(term, 0.0) for term in terms)
        return held / self.total_matter if self.total_matter else 0.0


def scored(
    question: Question,
    passages: Sequence[pb.NumberedPassage],
    readings: Sequence[Reading],
    checkpoint: Callable[[], None],
) -> Sequence[Candidate]:
    """Return the sentences of all passages with their scores and relevance; none if the question holds no
    term that tells what it is about."""
    by_passage: list[list[Candidate]] = []
    for index, (passage, reading) in enumerate(zip(passages, readings, strict=True)):
        checkpoint()
        language = reading.language or question.language
        by_passage.append(_candidates(index, passage, reading, language, question.terms))
    found = [candidate for members in by_passage for candidate in members]
    _accept_counted(question, found)
    _accept_verb_forms(question, found)
    _accept_variants(question, found)
    _accept_cognates(question, found)
    _accept_related(question, found)
    _accept_denials(question, found)
    _accept_measured(question, found)
    asked = _weighted(question, found)
    question.weights = asked.weights
    if not found or asked.total == 0:
        return ()
    average = sum(candidate.size for candidate in found) / len(found) or 1.0
    for index, members in enumerate(by_passage):
        checkpoint()
        is_translated = bool(members) and is_other(question.language, members[0].language)
        _score(asked, passages[index], index, members, average, is_translated=is_translated)
    return found


def _candidates(
    index: int, passage: pb.NumberedPassage, reading: Reading, language: str | None, wanted: frozenset[str]
) -> list[Candidate]:
    above = frozenset(content_terms(f"{passage.title} {without_header(passage.context)}", language))
    headings: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    found: list[Candidate] = []
    for position, sentence in enumerate(reading.sentences(language)):
        heading, terms = sentence.segment.heading, sentence.terms
        if heading not in headings:
            all_above = above.union(content_terms(heading, language))
            headings[heading] = all_above, wanted & all_above
        # Most sentences hold none of them, which is faster to tell than which ones they hold.
        held = () if wanted.isdisjoint(terms) else wanted.intersection(terms)
        hits = {term: terms.count(term) for term in held}
        found.append(Candidate(index, position, sentence, language, hits, len(terms), *headings[heading]))
    return found


def _accept_variants(question: Question, candidates: Sequence[Candidate]) -> None:
    """Match a question's terms with compounds of two of them; one that no sentence holds with both parts of
    it, or else with its inflections and compounds that some hold.

    Not with those of another language if the term's meaning is known: *Probezeit* is about no probe.
    """
    wanted, language = question.terms, question.language
    own = [each for each in candidates if not is_other(language, each.language)]
    vocabulary = frozenset(chain.from_iterable(candidate.sentence.terms for candidate in candidates))
    ends = tuple(wanted)
    for compound in [each for each in vocabulary if each.startswith(ends) and each.endswith(ends)]:
        parts = dict.fromkeys(parts_among(compound, wanted), 1)
        for each in candidates if parts else ():
            if compound in each.sentence.terms:
                each.hits = parts | each.hits
    met = frozenset(term for candidate in candidates for term in candidate.hits)
    long_enough = [other for other in vocabulary if len(other) >= MIN_VARIANT_LENGTH]
    for term in [each for each in wanted - met if len(each) >= MIN_VARIANT_LENGTH]:
        among = own if language is not None and is_known_whole(term, language) else candidates
        # Most words are no compound of two others, which is faster to tell of all sentences at once.
        is_apart = parts_among(term, vocabulary)
        apart = [each for each in among if is_apart and parts_among(term, each.sentence.terms)]
        for each in apart:
            each.hits[term] = 1
        if not apart:
            variants = frozenset(other for other in long_enough if is_variant(term, other))
            _accept_forms(term, variants, among)


def _accept_verb_forms(question: Question, found: Sequence[Candidate]) -> None:
    """Match the verbs of a question with their participles, and the reverse: what must not be done is mostly
    said as what "must not be kept" or "darf nicht mitgebracht werden"."""
    members = [each for each in found if each.language == question.language]
    vocabulary = frozenset(chain.from_iterable(each.sentence.terms for each in members))
    for term in question.terms:
        forms = verb_forms(term, vocabulary, question.language)
        for each in members if forms else ():
            if term not in each.hits and not forms.isdisjoint(each.sentence.terms):
                each.hits[term] = 1


def _accept_counted(question: Question, found: Sequence[Candidate]) -> None:
    """Match what a question counts with the sentences that count it in other words."""
    wanted = question.counted.things | question.counted.of
    for each in found if wanted else ():
        if each.language != question.language or each.language is None or wanted <= each.hits.keys():
            continue
        if counts_by_name(each.sentence.text, question.counted, each.language):
            each.hits = dict.fromkeys(wanted, 1) | each.hits


def _accept_cognates(question: Question, found: Sequence[Candidate]) -> None:
    """Match a question's term that no text of another language holds with words there that begin alike."""
    members = [each for each in found if is_other(question.language, each.language)]
    if not members:
        return
    met = frozenset(chain.from_iterable(each.hits for each in members))
    vocabulary = frozenset(chain.from_iterable(each.sentence.terms for each in members))
    spelt = [(other, _spelt(other)) for other in vocabulary if len(other) >= _MIN_COGNATE_LENGTH]
    for term in question.terms - met:
        if len(term) < _MIN_COGNATE_LENGTH:
            continue
        own = _spelt(term)
        cognates = frozenset(
            each
            for each, other in spelt
            if begin_alike(own, other, _MIN_COGNATE_LENGTH, _COGNATE_PREFIX_SHARE)
        )
        _accept_forms(term, cognates, members)


def _spelt(term: str) -> str:
    """Return a term without the differences in spelling that languages make in words of one origin."""
    return term.translate(_SPELT_ALIKE).replace("ph", "f").replace("th", "t")


def _accept_forms(term: str, forms: frozenset[str], candidates: Sequence[Candidate]) -> None:
    for candidate in candidates:
        if not forms.isdisjoint(candidate.sentence.terms):
            occurrences = sum(other in forms for other in candidate.sentence.terms)
            candidate.hits[term] = occurrences
            candidate.size += occurrences


def is_other(language: str | None, of_text: str | None) -> bool:
    """Tell whether a text is known to be in another language than a question."""
    return language is not None and of_text is not None and language != of_text


def _accept_related(question: Question, found: Sequence[Candidate]) -> None:
    """Match a question's term with its translations in texts of the other language; in texts of its own, and
    only if no sentence there holds it, with words that mean the same."""
    if question.language is None:
        return
    by_language: dict[str, list[Candidate]] = {}
    for candidate in found:
        if candidate.language is not None:
            by_language.setdefault(candidate.language, []).append(candidate)
    for language, members in by_language.items():
        is_own = language == question.language
        met = frozenset(chain.from_iterable(each.hits for each in members)) if is_own else frozenset()
        texts = () if is_own else ((*each.sentence.terms, *each.heading) for each in members)
        spoken = frozenset(chain.from_iterable(texts))
        for term in question.terms - met:
            meanings = related(term, question.language, language)
            if not is_own:
                if language == "german":
                    # A word of both languages may be part of a German one: "problem", "Rechenprobleme".
                    meanings |= {term}
                meanings = frozenset(
                    each for each in spoken if any(is_part(meaning, each) for meaning in meanings)
                )
            if meanings:
                _accept(term, meanings, members)


def _accept(term: str, forms: frozenset[str], members: Iterable[Candidate]) -> None:
    def occurrences_in(terms: Iterable[str]) -> int:
        return 0 if forms.isdisjoint(terms) else sum(other in forms for other in terms)

    above: dict[frozenset[str], bool] = {}
    for member in members:
        if term not in member.hits and (occurrences := occurrences_in(member.sentence.terms)):
            member.hits[term] = occurrences
        if member.heading not in above:
            above[member.heading] = occurrences_in(member.heading) > 0
        if above[member.heading]:
            member.in_heading |= {term}


def _accept_denials(question: Question, found: Sequence[Candidate]) -> None:
    """Match the words by which a question asks what is not so with any by which a sentence says it."""
    for candidate in found if question.asks_what_is_not else ():
        contrary = contraries(candidate.sentence.terms, question.terms)
        candidate.hits = dict.fromkeys(contrary, 1) | candidate.hits
        candidate.denies = bool(contrary) or denies(candidate.sentence.text)
        if candidate.denies:
            candidate.implied = question.denying - candidate.hits.keys()
            candidate.hits.update(dict.fromkeys(candidate.implied, 1))
        else:
            candidate.hits = {term: n for term, n in candidate.hits.items() if term not in question.denying}


def _accept_measured(question: Question, found: Sequence[Candidate]) -> None:
    """Match the words that ask for a measure with values of it: "cheaper" with "£74"."""
    asking = dict.fromkeys(question.measuring & question.terms, 1) if question.measures else {}
    for candidate in found if asking else ():
        if candidate.measured(question.measures):
            candidate.hits = asking | candidate.hits


def _weighted(question: Question, candidates: Sequence[Candidate]) -> _Weighted:
    """Return the question's terms with their inverse sentence frequency; one that no sentence holds weighs
    most, unless it only tells a degree."""
    count = max(len(candidates), _MIN_SENTENCES)
    frequencies = Counter(chain.from_iterable(candidate.hits for candidate in candidates))
    weights = {
        term: math.log(1 + (count - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
        for term in question.terms
        if frequencies[term]
        or not (term in question.degrees or _is_grammatical(term, question.language, candidates))
    }
    if question.language == "german":
        decisive = _nouns(question.text) | (_act(question.text) if question.asks_what_is_not else frozenset())
        for term in decisive & weights.keys():
            weights[term] *= _GERMAN_NOUN_WEIGHT
    for term in frozenset(content_terms(asking_words(question.text), question.language)) & weights.keys():
        weights[term] *= _ASKING_WEIGHT
    matter = {term: weight for term, weight in weights.items() if term not in question.denying}
    # "Who approves longer trips?" has a comparative too, and asks for no figure.
    asked = asked_for(question.text) or (NUMBER if question.asks_degree else None)
    return _Weighted(
        weights,
        sum(weights.values()),
        question.language,
        question.names,
        question.required,
        asked,
        question.counted,
        asks_for_steps(question.text),
        matter,
        sum(matter.values()),
        question.validity,
    )


def _is_grammatical(term: str, language: str | None, candidates: Sequence[Candidate]) -> bool:
    """Tell whether texts that are all in other languages than a question have no term for its word."""
    spoken = {each.language for each in candidates}
    return language is not None and all(
        other is not None and other != language and is_grammatical(term, language, other) for other in spoken
    )


def _nouns(query: str) -> frozenset[str]:
    """Return the terms of a German question that begin with a capital, except its first word."""
    capitalized = " ".join(word for word in query.split()[1:] if word[:1].isupper())
    return frozenset(content_terms(capitalized, "german"))


def _act(query: str) -> frozenset[str]:
    """Return the term of the verb that a German question ends with: what must not be done."""
    found = _ENDS_WITH_VERB.search(query)
    return frozenset(content_terms(found.group(), "german")) if found else frozenset()


def _score(
    asked: _Weighted,
    passage: pb.NumberedPassage,
    rank: int,
    members: Sequence[Candidate],
    average: float,
    *,
    is_translated: bool,
) -> None:
    in_passage = frozenset(chain.from_iterable(member.hits for member in members))
    # Between two languages the similarity of a model that knows one of them tells nothing.
    known = passage.HasField("similarity") and (not is_translated or passage.similarity_crosses_languages)
    similarity = max(0.0, passage.similarity)
    prior = 1 + _RANK_PRIOR / (rank + 1) + _SIMILARITY_PRIOR * similarity
    if is_translated:
        similarity = min(similarity + _BETWEEN_LANGUAGES, 1.0)
    share = _similarity_share(asked.language, passage, is_translated=is_translated)
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
        if asked.counted.things and not is_translated:
            member.is_of_kind = _counts(asked.counted, member)
        elif asked.asked_for:
            member.is_of_kind = has_another(asked.asked_for, member.sentence.text, asked.weights)
        if member.is_of_kind:
            score *= _KIND_OF_ANSWER_BONUS
        if asked.asks_for_steps:
            score *= _as_step(member)
        member.score = score * prior
        member.relevance = covered / asked.total
        member.own_share = asked.share_of(member.is_about)
        if known:
            member.relevance += share * (similarity - member.relevance)


def _similarity_share(language: str | None, passage: pb.NumberedPassage, *, is_translated: bool) -> float:
    """Return the share of the similarity in the relevance. All models know English."""
    if is_translated:
        return _SIMILARITY_SHARE_BETWEEN
    is_known = language in (None, "english") or passage.similarity_crosses_languages
    return _SIMILARITY_SHARE if is_known else _SIMILARITY_SHARE_UNKNOWN


def _as_step(member: Candidate) -> float:
    """Return the factor of a sentence where steps are asked for."""
    kind = member.sentence.segment.kind
    if kind is Kind.STEP or (kind is Kind.SENTENCE and member.sentence.text.endswith(":")):
        return _KIND_OF_ANSWER_BONUS
    is_short = len(member.sentence.text.split()) < _FRAGMENT_WORDS
    is_fragment = kind is Kind.ROW or (kind is Kind.SENTENCE and (is_short or member.refers_back))
    return _FRAGMENT if is_fragment else 1.0


def _credited(
    asked: _Weighted,
    member: Candidate,
    previous: Container[str],
    following: Container[str],
    in_passage: Container[str],
    average: float,
) -> tuple[float, float]:
    """Return the score of a sentence and the weight of the question's terms that count: those that it holds,
    and in part those of the sentences beside it, its headings and its passage."""
    refers_back = bool(previous) and member.refers_back
    length = 1 - _B + _B * member.size / average
    score = covered = 0.0
    for term, weight in asked.weights.items():
        if occurrences := member.hits.get(term):
            credit = _IN_OTHER_WORDS if term in member.implied else _IN_SENTENCE
            score += weight * credit * occurrences * (_K1 + 1) / (occurrences + _K1 * length)
            covered += weight * credit
            continue
        if term in asked.validity:
            covered += weight
            continue
        if refers_back and term in previous:
            score += weight * _REFERRED_TO
            covered += weight * _REFERRED_TO
            continue
        if term in member.in_heading and (term in asked.names or term in asked.required):
            # Whose document it is decides as much as what a sentence names.
            score += weight * _NAMED_IN_HEADING
            covered += weight * (_IN_SENTENCE if term in asked.required else _IN_HEADING)
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


def _counts(counted: Counted, member: Candidate) -> bool:
    """Tell whether the sentence counts the things; a row of a table names them in its columns."""
    if member.language is None or not counted.of <= member.is_about:
        return False
    is_row = member.sentence.segment.kind is Kind.ROW
    text = quotation(member.sentence) if is_row else member.sentence.text
    around = (*member.sentence.terms, *member.heading)
    return counts(text, counted, member.language, around)
