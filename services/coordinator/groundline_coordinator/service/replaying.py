"""Answers that a request already got, for a client that sends it again."""

from groundline.v1 import chat_pb2, passage_pb2
from groundline.v1 import coordinator_service_pb2 as pb

from groundline_coordinator.domain.corrections import replacement, was_corrected, with_answer
from groundline_coordinator.domain.turns import Turn
from groundline_coordinator.service.searching import Emit


async def replay(turn: Turn, answered: pb.AnswerResponse, emit: Emit) -> None:
    """Emit the events that the caller does not have yet."""
    sent = turn.position
    if not sent.sequence:
        await emit(turn.started)
    if sent.characters is None:
        if answered.rewritten_query or answered.sub_queries:
            await emit(
                chat_pb2.ChatStatus(
                    stage=passage_pb2.STAGE_RETRIEVING,
                    rewritten_query=answered.rewritten_query,
                    sub_queries=answered.sub_queries,
                    rewriting_model=answered.rewriting_model,
                    corrections=answered.corrections,
                )
            )
        await emit(chat_pb2.ChatSources(sources=answered.sources))
    if not was_corrected(answered) or turn.question.options.append_only:
        if text := answered.answer[sent.characters or 0 :]:
            await emit(text)
        await emit(answered.completed)
        return
    # The caller may have what was taken back later.
    await emit(replacement(sent.characters, answered.answer) if sent.characters else answered.answer)
    await emit(with_answer(answered.completed, answered.answer))
