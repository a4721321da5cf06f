"""How likely quoted sentences hold the answer: what `confidence` tells of a quotation."""

import math
from collections.abc import Sequence
from typing import Final

from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.quoting.candidates import Candidate, Question
from groundline_generator.domain.quoting.choosing import lead_of
from groundline_generator.domain.quoting.scoring import is_other

# A logistic regression on whether the extracts hold the answer, the paragraph that does removed from a fifth
# of the questions. Fitted on one half of each of six sets, which weigh the same: a part of SQuAD 2.0's
# training set, xquad in English, in German, and in English over German, COVID-QA, and FairytaleQA.
_COVERAGE_WEIGHT: Final = 2.76
_LEAD_WEIGHT: Final = 2.49
_NEARNESS_WEIGHT: Final = 2.22
_TRANSLATED_WEIGHT: Final = 0.6
_BIAS: Final = -1.86


def likelihood(
    question: Question,
    ranked: Sequence[Candidate],
    passages: Sequence[pb.NumberedPassage],
    shift: float = 0.0,
) -> float:
    """Return the probability that the first of ranked sentences holds the answer, and what is quoted with it.

    It rises with the share of the question's terms that the sentence and its headings have, with its lead on
    those of other passages, and with its passage's lead in similarity; it is higher if sentence and question
    are in different languages, between which fewer terms are recognized. `shift` is what was added to its
    relevance for other reasons.
    """
    best = ranked[0]
    coverage = len(best.is_about) / max(1, len(question.terms)) + shift
    log_odds = (
        _COVERAGE_WEIGHT * coverage
        + _LEAD_WEIGHT * (lead_of(ranked) or 0.0)
        + _NEARNESS_WEIGHT * _nearness(best, passages)
        + _TRANSLATED_WEIGHT * is_other(question.language, best.language)
        + _BIAS
    )
    return 1 / (1 + math.exp(-log_odds))


def _nearness(best: Candidate, passages: Sequence[pb.NumberedPassage]) -> float:
    """Return by how much a sentence's passage is more similar to the question than all others; less than 0 if
    another one is, 0 if there is no other."""
    # A passage that vector search did not find has no similarity, which reads as 0.
    others = [passage.similarity for at, passage in enumerate(passages) if at != best.passage]
    return passages[best.passage].similarity - max(others) if others else 0.0
