"""Validation of a finished answer."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from groundline.v1 import chat_pb2, error_pb2
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.citations import CitedAnswer, CitedClaim
from groundline_generator.domain.checking.differences import Deviation

_LOW_RELEVANCE: Final = 0.4
"""Share of the question's terms below which an answer gets an issue; most such answers were wrong."""

_ENDINGS: Final = {
    chat_pb2.FINISH_REASON_MAX_TOKENS: chat_pb2.ValidationIssue(
        reason=error_pb2.ANSWER_CUT_OFF, message="the answer ended at its limit of tokens"
    ),
    chat_pb2.FINISH_REASON_SAFETY: chat_pb2.ValidationIssue(
        reason=error_pb2.ANSWER_WITHHELD, message="the provider withheld the rest of the answer"
    ),
}


class Defect(NamedTuple):
    """Reason why a claim is not borne out, and what it has otherwise than its passages, if that is known."""

    issue: chat_pb2.ValidationIssue
    deviation: Deviation | None = None

    @property
    def contradicts(self) -> bool:
        return self.deviation is not None and self.deviation.contradicts


def validate(
    query: str,
    answer: CitedAnswer,
    finish_reason: chat_pb2.FinishReason.ValueType,
    noticed: Sequence[chat_pb2.ValidationIssue] = (),
    verdicts: Sequence[bool] | None = None,
    likelihood: float | None = None,
) -> chat_pb2.Validation:
    """Check a finished answer against its passages: by the terms they share, and by rules for numbers, names
    and negation.

    `verdicts`, one for each of the answer's claims, replace that comparison if a judge has given them. An
    answer is grounded when every claim is cited and supported; its confidence is the product of the shares of
    cited and supported claims and the `likelihood` that it is right; if that is not known, the relevance to
    the question.
    """
    issues = list(noticed)
    if finish_reason == chat_pb2.FINISH_REASON_NO_ANSWER:
        if answer.passages:
            issues.append(_issue(error_pb2.NO_SUPPORTING_PASSAGE, "no passage supports an answer"))
        else:
            issues.append(_issue(error_pb2.NO_PASSAGES, "no passage was given"))
        return chat_pb2.Validation(issues=issues)
    if (ending := _ENDINGS.get(finish_reason)) is not None:
        issues.append(ending)
    claims = answer.claims
    if not claims:
        return chat_pb2.Validation(
            issues=[*issues, _issue(error_pb2.EMPTY_ANSWER, "the answer has no content")]
        )
    borne_out = _borne_out(answer, verdicts, issues)
    cited = sum(map(answer.cites, claims))
    supported = len(borne_out)
    issues.extend(_disagreements(query, answer, borne_out))
    if (asked := guess_language(query)) and (said := guess_language(answer.text)) and said != asked:
        message = f"the answer is in {said.capitalize()}, the question in {asked.capitalize()}"
        issues.append(_issue(error_pb2.ANSWER_IN_OTHER_LANGUAGE, message))
    relevance = _query_relevance(query, answer)
    if relevance < _LOW_RELEVANCE:
        issues.append(_issue(error_pb2.LOW_RELEVANCE, "the answer says little of what was asked for"))
    cited_share, supported_share = cited / len(claims), supported / len(claims)
    return chat_pb2.Validation(
        grounded=supported == len(claims),
        confidence=cited_share * supported_share * (relevance if likelihood is None else likelihood),
        cited_share=cited_share,
        supported_share=supported_share,
        query_relevance=relevance,
        issues=issues,
    )


def defect_of(answer: CitedAnswer, claim: CitedClaim) -> Defect | None:
    """Return why the passages that a claim cites do not bear it out; None if they do."""
    if not answer.cites(claim):
        return Defect(_uncited(claim))
    if not answer.supports(claim):
        return Defect(_unsupported(claim))
    if (found := answer.deviation(claim)) is not None:
        message = f'its sources do not bear out "{found.claimed or found.said}": {shortened(claim.text)}'
        return Defect(_issue(found.reason, message), found)
    return None


def _borne_out(
    answer: CitedAnswer, verdicts: Sequence[bool] | None, issues: list[chat_pb2.ValidationIssue]
) -> Sequence[CitedClaim]:
    """Return the claims that their passages bear out; append to `issues` what is wrong with the others."""
    borne_out = []
    for index, claim in enumerate(answer.claims):
        if verdicts is None:
            issue = found.issue if (found := defect_of(answer, claim)) else None
        elif not answer.cites(claim):
            issue = _uncited(claim)
        else:
            issue = None if verdicts[index] else _unsupported(claim)
        if issue is None:
            borne_out.append(claim)
        else:
            issues.append(issue)
    return borne_out


def _disagreements(
    query: str, answer: CitedAnswer, claims: Sequence[CitedClaim]
) -> Iterator[chat_pb2.ValidationIssue]:
    for found in answer.disagreements(query, claims):
        message = (
            f'[{found.number}] says "{shortened(found.words)}", '
            f'[{found.other_number}] "{shortened(found.other_words)}"'
        )
        yield _issue(error_pb2.SOURCES_DISAGREE, message)


def _query_relevance(query: str, answer: CitedAnswer) -> float:
    """Return the share of the question's terms in the answer or in the title or context of a cited
    passage."""
    language = guess_language(query) or guess_language(answer.text)
    wanted = frozenset(content_terms(query, language))
    numbers = {number for claim in answer.claims for number in claim.numbers}
    cited = [passage for number, passage in answer.passages.items() if number in numbers]
    placed = " ".join(f"{passage.title} {passage.context}" for passage in cited)
    held = wanted.intersection(content_terms(f"{answer.text} {placed}", language))
    return len(held) / len(wanted) if wanted else 1.0


def _issue(reason: error_pb2.ErrorReason.ValueType, message: str) -> chat_pb2.ValidationIssue:
    return chat_pb2.ValidationIssue(reason=reason, message=message)


def _uncited(claim: CitedClaim) -> chat_pb2.ValidationIssue:
    return _issue(error_pb2.UNCITED_SENTENCE, f"no source is cited for: {shortened(claim.text)}")


def _unsupported(claim: CitedClaim) -> chat_pb2.ValidationIssue:
    return _issue(error_pb2.UNSUPPORTED_SENTENCE, f"its sources do not support: {shortened(claim.text)}")


def shortened(text: str) -> str:
    """Return a text as an issue quotes it, 80 characters at most."""
    return text if len(text) <= 80 else text[:79] + "…"
