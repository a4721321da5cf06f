"""Asking tables for what a question wants to know, beside the search for passages."""

from typing import Final

from groundline.v1 import error_pb2, passage_pb2, retriever_service_pb2
from groundline_contracts import limits_of
from groundline_runtime.context import deadline_within
from groundline_runtime.errors import Code, GroundlineError

from groundline_coordinator.domain.turns import Turn
from groundline_coordinator.ports import Retriever
from groundline_coordinator.service.progress import StageReport, share
from groundline_coordinator.service.searching import Searched

__all__ = ["asked_tables"]

_ASKING_SHARE: Final = 0.1
_LONGEST_QUESTION: Final = limits_of(retriever_service_pb2.QueryTablesRequest, "question").max_length


async def asked_tables(
    retriever: Retriever, turn: Turn, searched: Searched, progress: StageReport, timeout_seconds: float
) -> retriever_service_pb2.QueryTablesResponse | None:
    """Return what a table says to a question; None if the question is not one for a table: a part of it means
    nothing there, no row is found, or it comes with a filter or a context. A failure is declared."""
    question = searched.rewrite.standalone_query.strip()
    inquiry = turn.inquiry
    if (
        turn.plan.is_empty
        or inquiry.filter.fields
        or turn.question.additional_context
        or len(question) > _LONGEST_QUESTION
    ):
        return None
    request = retriever_service_pb2.QueryTablesRequest(
        question=question,
        collection_ids=inquiry.collection_ids,
        document_ids=list(dict.fromkeys(each.chunk.document_id for each in searched.passages)),
    )
    try:
        async with deadline_within(share(_ASKING_SHARE, timeout_seconds)):
            found = await retriever.query_tables(request)
    except GroundlineError as error:
        if error.code != Code.UNIMPLEMENTED:  # a retriever of the release before
            progress.degrade(
                passage_pb2.COMPONENT_RETRIEVAL, error_pb2.SEARCH_INCOMPLETE, "tables could not be asked"
            )
        return None
    has_value = any(row.cells[-1].text for row in found.rows if row.cells)
    return found if has_value and found.chunks else None
