"""Verdicts from what a language model says of claims; its quotations are looked up in the passages."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from groundline.v1 import error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.checking.verdicts import nearest

__all__ = ["Judgement", "verdict_of"]

_VERDICTS: Final = {
    "supported": (verification_pb2.VERDICT_SUPPORTED, error_pb2.ERROR_REASON_UNSPECIFIED),
    "refuted": (verification_pb2.VERDICT_REFUTED, error_pb2.CONTRADICTED_SENTENCE),
    "not_found": (verification_pb2.VERDICT_NOT_FOUND, error_pb2.UNSUPPORTED_SENTENCE),
}

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
    """Return a judgement as a verdict. One that rests on no passage that was given is not believed."""
    passage = next((each for each in passages if each.number == judgement.passage), None)
    kind = judgement.verdict
    message = judgement.reason.strip()[:_MAX_MESSAGE]
    if passage is None and kind != "not_found":
        kind, message = "not_found", "the model names no passage that says so"
    verdict, reason = _VERDICTS[kind]
    words = judgement.words.strip()
    return pb.ClaimVerdict(
        verdict=verdict,
        probability=judgement.certainty,
        reason=reason,
        message=message if reason else "",
        words=[words] if words and words in claim.text else (),
        evidence=[_evidence(judgement.quote, claim, passage)] if passage is not None else (),
    )


def _evidence(quote: str, claim: pb.Claim, passage: pb.NumberedPassage) -> pb.PassageEvidence:
    """Return where a quotation stands; if it does not stand there, the sentence that is nearest to the
    claim."""
    words = quote.split()
    found = re.search(r"\s+".join(map(re.escape, words)), passage.text) if words else None
    if found is None:
        start, end = nearest(claim, passage)
    else:
        start, end = found.span()
    return pb.PassageEvidence(passage_number=passage.number, start_offset=start, end_offset=end)
