"""Worth of an answer: whether it holds what was asked for, cites what it should, and is refused when it must
be."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from groundline_client.models import AnswerResponse, ChatCompleted, FinishReason, Validation

from groundline_cli.evaluation.measures import precision, recall, reciprocal_rank, unique
from groundline_cli.evaluation.sets import Query

_WORD: Final = re.compile(r"\w+")
_MARKER: Final = re.compile(r"\[\d+(?:, ?\d+)*\]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, as far as it is measured."""

    answer: str
    refused: bool
    """Whether it says that the documents do not hold the answer."""
    citations: Sequence[str]
    """Document of each citation, in the order of the text; "" if its source is not there."""
    sources: Sequence[str]
    """Documents of the passages that it could cite, best first."""
    confidence: float
    raw_confidence: float
    """Confidence before the collection's calibration."""
    grounded: bool
    issues: Sequence[str]
    """Reasons that validation gave."""
    degraded: bool
    """Whether a part of the work was skipped, failed or came late."""
    model: str
    error: str = ""
    """Why there is no answer; empty if there is one."""

    @classmethod
    def of(cls, response: AnswerResponse) -> "Outcome":
        """Keep what is measured of a response; a source's uri is the document's id in the set."""
        completed = response.completed or ChatCompleted()
        validation = completed.validation or Validation()
        uris = {source.number: source.uri for source in response.sources}
        return cls(
            answer=response.answer,
            refused=completed.finish_reason == FinishReason.NO_ANSWER,
            citations=[uris.get(citation.source_number, "") for citation in completed.citations],
            sources=unique(uris.values()),
            confidence=validation.confidence,
            raw_confidence=validation.raw_confidence,
            grounded=validation.grounded,
            issues=[issue.reason.value for issue in validation.issues],
            degraded=bool(completed.degraded),
            model=completed.model,
        )

    @classmethod
    def failed(cls, error: str) -> "Outcome":
        """Build the outcome of a question that the gateway refused for good."""
        return cls("", False, [], [], 0.0, 0.0, False, [], False, "", error)

    def as_json(self) -> dict[str, Any]:
        """Return the fields for a file."""
        return asdict(self)


def answer_figures(query: Query, outcome: Outcome) -> dict[str, float]:
    """Return the figures of one answer, by name; those that say nothing of it are left out.

    Citations and validation are measured on answers that were given; refusals have their own figures.
    """
    if outcome.error:
        return {}
    figures: dict[str, float] = {}
    if not query.answerable:
        figures["refused"] = float(outcome.refused)
    else:
        figures["answered"] = float(not outcome.refused)
        if query.answers:
            figures["contains"] = float(not outcome.refused and contains(outcome.answer, query.answers))
    if outcome.refused:
        return figures
    if query.answerable and query.relevance:
        cited = unique(outcome.citations)
        figures["cited_precision"] = precision(cited, query.relevance)
        figures["cited_recall"] = recall(cited, query.relevance, len(cited))
        figures["cited_mrr"] = reciprocal_rank(cited, query.relevance, len(cited))
    right = is_right(query, outcome)
    figures["right"] = float(right)
    figures["grounded"] = float(outcome.grounded)
    if not right:
        figures["grounded_though_wrong"] = float(outcome.grounded)
    figures["confidence"] = outcome.confidence
    figures["brier"] = (outcome.confidence - right) ** 2
    return figures


def is_right(query: Query, outcome: Outcome) -> bool:
    """Tell whether an answer that was given is right: it holds an accepted answer or, if none is known, cites
    a relevant document. An answer to what the documents do not say is wrong."""
    if not query.answerable:
        return False
    if query.answers:
        return contains(outcome.answer, query.answers)
    return any(document in query.relevance for document in outcome.citations)


def contains(text: str, answers: Sequence[str]) -> bool:
    """Tell whether an answer's text holds one of the accepted ones as whole words; letter case, punctuation
    and numbers of sources do not matter."""
    words = _words(_MARKER.sub(" ", text))
    return any(_words(answer) in words for answer in answers)


def _words(text: str) -> str:
    """Return the words in one case, between spaces."""
    return f" {' '.join(_WORD.findall(unicodedata.normalize('NFKC', text).casefold()))} "
