"""Answers that were corrected after a part of them had been sent."""

from typing import Final

from groundline.v1 import chat_pb2, error_pb2
from groundline.v1 import coordinator_service_pb2 as pb

_CORRECTED: Final = frozenset((error_pb2.SENTENCE_CORRECTED, error_pb2.SENTENCE_WITHDRAWN))


def corrected(text: str, correction: chat_pb2.AnswerCorrection) -> str:
    """Return a text with a correction applied."""
    return f"{text[: correction.start_offset]}{correction.text}{text[correction.end_offset :]}"


def was_corrected(answered: pb.AnswerResponse) -> bool:
    """Tell whether the text of an answer is not what its model wrote."""
    return any(issue.reason in _CORRECTED for issue in answered.completed.validation.issues)


def replacement(characters: int, answer: str) -> chat_pb2.AnswerCorrection:
    """Return the correction that makes an answer of a text with this many characters."""
    return chat_pb2.AnswerCorrection(
        end_offset=characters,
        text=answer,
        issue=chat_pb2.ValidationIssue(
            reason=error_pb2.ANSWER_CORRECTED, message="the answer was corrected after a part of it was sent"
        ),
    )


def with_answer(completed: chat_pb2.ChatCompleted, answer: str) -> chat_pb2.ChatCompleted:
    """Return the end of an answer that was corrected in its stream, with the whole answer."""
    told = chat_pb2.ChatCompleted(corrected_answer=answer)
    told.MergeFrom(completed)
    return told
