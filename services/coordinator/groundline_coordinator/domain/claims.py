"""Claims of a text that is verified: what is searched for, and verdicts with their sources."""

from collections.abc import Sequence
from typing import Final

from groundline.v1 import generator_service_pb2, passage_pb2, retriever_service_pb2, verification_pb2
from groundline_contracts import limits_of

from groundline_coordinator.domain.passages import number_sources
from groundline_coordinator.domain.snippets import shortened

_MAX_QUERY: Final = min(2_000, limits_of(retriever_service_pb2.SearchRequest, "query").max_length)
"""Maximum characters that are searched for; a claim that is longer is a list or a text without full stops."""


def query_of(claim: generator_service_pb2.Claim) -> str:
    """Return what is searched for: the claim, and what it refers to."""
    return shortened(f"{claim.text} {claim.context}", _MAX_QUERY)


def verified(
    number: int,
    claim: generator_service_pb2.Claim,
    text: str,
    verdict: generator_service_pb2.ClaimVerdict,
    passages: Sequence[passage_pb2.Passage],
) -> verification_pb2.VerifiedClaim:
    """Return a verdict on a claim of a text with its sources; offsets are those of their documents."""
    sources = {source.number: source for source in number_sources(passages, claim.text)}
    evidence = []
    for each in verdict.evidence:
        if each.passage_number in sources:
            chunk = passages[each.passage_number - 1].chunk
            evidence.append(
                verification_pb2.ClaimEvidence(
                    source=sources[each.passage_number],
                    start_offset=chunk.start_offset + each.start_offset,
                    end_offset=chunk.start_offset + each.end_offset,
                    text=chunk.text[each.start_offset : each.end_offset],
                    words=each.words,
                )
            )
    return verification_pb2.VerifiedClaim(
        number=number,
        start_offset=claim.start_offset,
        end_offset=claim.end_offset,
        text=text[claim.start_offset : claim.end_offset],
        verdict=verdict.verdict,
        probability=verdict.probability,
        reason=verdict.reason,
        message=verdict.message,
        words=verdict.words,
        evidence=evidence,
    )
