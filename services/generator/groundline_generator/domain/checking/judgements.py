"""Verdicts from what a language model says of claims; its quotations are looked up in the passages."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from groundline.v1 import error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_language import guess_language
from groundline_language.terms import content_terms

from groundline_generator.domain.checking.verdicts import nearest

_VERDICTS: Final = {
    "supported": (verification_pb2.VERDICT_SUPPORTED, error_pb2.ERROR_REASON_UNSPECIFIED),
    "refuted": (verification_pb2.VERDICT_REFUTED, error_pb2.CONTRADICTED_SENTENCE),
    "not_found": (verification_pb2.VERDICT_NOT_FOUND, error_pb2.UNSUPPORTED_SENTENCE),
}

_WORDS: Final = re.compile(r"[^\W_]+")

_MAX_MESSAGE: Final = 400
"""Maximum characters of a model's reason that are passed on."""


class Judgement(NamedTuple):
    """A model's judgement of a claim; `certainty` is a share, `passage` 0 if none decides."""

    verdict: Literal["supported", "refuted", "not_found"]
    passage: int
    quote: str
    words: str
    certainty: float
    reason: str


def verdict_of(
    judgement: Judgement, claim: pb.Claim, passages: Sequence[pb.NumberedPassage]
) -> pb.ClaimVerdict:
    """Return a judgement as a verdict; unspecified if it cannot be believed.

    What supports or refutes a claim has to be a quotation of a passage that was given, and to share a word
    with the claim, unless they are of two languages: an instruction in a document that the model obeyed does
    neither.
    """
    passage = next((each for each in passages if each.number == judgement.passage), None)
    evidence = None if passage is None else _evidence(judgement.quote, passage)
    if judgement.verdict != "not_found" and (
        evidence is None or passage is None or not _is_about(claim, passage, evidence)
    ):
        return pb.ClaimVerdict()
    if evidence is None and passage is not None:
        start, end = nearest(claim, passage)
        evidence = pb.PassageEvidence(passage_number=passage.number, start_offset=start, end_offset=end)
    verdict, reason = _VERDICTS[judgement.verdict]
    words = judgement.words.strip()
    return pb.ClaimVerdict(
        verdict=verdict,
        probability=judgement.certainty,
        reason=reason,
        message=judgement.reason.strip()[:_MAX_MESSAGE] if reason else "",
        words=[words] if words and words in claim.text else (),
        evidence=[] if evidence is None else [evidence],
    )


def _evidence(quote: str, passage: pb.NumberedPassage) -> pb.PassageEvidence | None:
    """Return where the words of a quotation stand; None if they do not. Letter case and punctuation are not
    compared, since models tidy them up."""
    words = _WORDS.findall(quote)
    if not words:
        return None
    pattern = r"[\W_]+".join(map(re.escape, words))
    found = re.search(rf"(?<!\w){pattern}(?!\w)[.!?…]?", passage.text, re.IGNORECASE)
    return found and pb.PassageEvidence(
        passage_number=passage.number, start_offset=found.start(), end_offset=found.end()
    )


def _is_about(claim: pb.Claim, passage: pb.NumberedPassage, evidence: pb.PassageEvidence) -> bool:
    """Tell whether a quotation has a term of the claim."""
    quoted = passage.text[evidence.start_offset : evidence.end_offset]
    asked, said = f"{claim.text} {claim.context}", guess_language(passage.text)
    language = guess_language(claim.text)
    if language and said and language != said:
        return True
    return not frozenset(content_terms(asked, said)).isdisjoint(content_terms(quoted, said))
