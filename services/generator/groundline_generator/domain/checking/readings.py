"""Verdicts from what a small model reads: a claim beside the windows of passages that are nearest to it."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from groundline.v1 import error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb

from groundline_generator.domain.checking.verdicts import nearest

_SURE: Final = 0.9
"""Chance from which a reading decides; a published model's chances are seldom calibrated on other texts."""

_WINDOWS: Final = 4
"""Maximum windows that are read for a claim, each some 20 to 100 ms of a processor."""

_WINDOW: Final = 1_200
"""Maximum characters of a window, some 300 tokens."""

_LONGEST_CLAIM: Final = 800
"""Characters of a claim from which a model would see only its beginning; it is left unread."""


class Reading(Protocol):
    """Chances (0 to 1) that a passage supports, refutes and says nothing of a claim, and the words of the
    claim that it does not bear out, if the model tells them."""

    @property
    def supports(self) -> float: ...
    @property
    def refutes(self) -> float: ...
    @property
    def unrelated(self) -> float: ...
    @property
    def words(self) -> Sequence[str]: ...


type ClaimReader = Callable[[Sequence[tuple[str, str]]], Sequence[Reading]]
"""A small model: the reading of each pair of a claim and a passage."""


class Window(NamedTuple):
    """Part of a passage to read, and the sentence in it that is nearest to the claim."""

    number: int
    text: str
    start: int
    end: int


def windows(claim: pb.Claim, passages: Sequence[pb.NumberedPassage]) -> Sequence[Window]:
    """Return the windows to read for a claim, one of each of the best passages; none if it is too long."""
    if len(claim.text) > _LONGEST_CLAIM:
        return ()
    return [_window(claim, passage) for passage in passages[:_WINDOWS]]


def verdict_read(ruled: pb.ClaimVerdict, read: Sequence[tuple[Window, Reading]]) -> pb.ClaimVerdict | None:
    """Return the verdict on a claim by its readings; None if they are not sure, contradict each other, or
    find the opposite of what the rules did."""
    supporting = max(read, key=lambda each: each[1].supports, default=None)
    refuting = max(read, key=lambda each: each[1].refutes, default=None)
    if supporting is None or refuting is None:
        return None
    supports, refutes = supporting[1].supports, refuting[1].refutes
    if supports >= _SURE > refutes and ruled.verdict != verification_pb2.VERDICT_REFUTED:
        return pb.ClaimVerdict(
            verdict=verification_pb2.VERDICT_SUPPORTED,
            probability=supports,
            evidence=[_evidence(supporting[0])],
        )
    if refutes >= _SURE > supports and ruled.verdict != verification_pb2.VERDICT_SUPPORTED:
        return pb.ClaimVerdict(
            verdict=verification_pb2.VERDICT_REFUTED,
            probability=refutes,
            reason=error_pb2.CONTRADICTED_SENTENCE,
            message="a passage says otherwise, as a small model reads it",
            words=refuting[1].words,
            evidence=[_evidence(refuting[0])],
        )
    unrelated = min(each.unrelated for _, each in read)
    if unrelated >= _SURE and ruled.verdict == verification_pb2.VERDICT_NOT_FOUND:
        found = pb.ClaimVerdict()
        found.CopyFrom(ruled)
        found.probability = unrelated
        return found
    return None


def _window(claim: pb.Claim, passage: pb.NumberedPassage) -> Window:
    """Return the window around the sentence that is nearest to the claim."""
    start, end = nearest(claim, passage)
    if len(passage.text) <= _WINDOW:
        return Window(passage.number, passage.text, start, end)
    first = max(0, min((start + end - _WINDOW) // 2, len(passage.text) - _WINDOW))
    text = passage.text[first : first + _WINDOW]
    return Window(passage.number, text, max(start, first), min(end, first + _WINDOW))


def _evidence(window: Window) -> pb.PassageEvidence:
    return pb.PassageEvidence(passage_number=window.number, start_offset=window.start, end_offset=window.end)
