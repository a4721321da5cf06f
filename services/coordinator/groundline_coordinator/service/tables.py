"""Asking tables for what a question wants to know, beside the search for passages."""

from typing import Final

from groundline.v1 import error_pb2, passage_pb2, retriever_service_pb2
from groundline_contracts import limits_of
from groundline_runtime.context import deadline_within
from groundline_runtime.errors import Code, GroundlineError

from groundline_coordinator.domain.table_answers import is_of_table
from groundline_coordinator.domain.turns import Turn
from groundline_coordinator.ports import Retriever
from groundline_coordinator.service.progress import StageReport, share
from groundline_coordinator.service.searching import Searched

_ASKING_SHARE: Final = 0.1
_PLANNING_SHARE: Final = 0.4
"""Share of the time left if a language model may plan the question, too."""

_LONGEST_QUESTION: Final = limits_of(retriever_service_pb2.QueryTablesRequest, "question").max_length


async def asked_tables(
    retriever: Retriever, turn: Turn, searched: Searched, progress: StageReport, timeout_seconds: float
) -> retriever_service_pb2.QueryTablesResponse:
    """Return what a table says to a question; no rows if the question is not one for a table: a part of it
    means nothing there, no row is found, or it comes with a filter, a context or a time. A failure is
    declared.

    A language model is asked for what rules do not understand if the best passage is of a table.
    """
    question = searched.rewrite.standalone_query.strip()
    inquiry = turn.inquiry
    if (
        turn.plan.is_empty
        or inquiry.filter.fields
        or inquiry.as_of is not None
        or turn.question.additional_context
        or len(question) > _LONGEST_QUESTION
    ):
        return retriever_service_pb2.QueryTablesResponse()
    by_model = any(map(is_of_table, searched.passages[:1]))
    request = retriever_service_pb2.QueryTablesRequest(
        question=question,
        collection_ids=inquiry.collection_ids,
        document_ids=list(dict.fromkeys(each.chunk.document_id for each in searched.passages)),
        planning=retriever_service_pb2.TABLE_PLANNING_UNSPECIFIED
        if by_model
        else retriever_service_pb2.TABLE_PLANNING_RULES,
    )
    try:
        async with deadline_within(share(_PLANNING_SHARE if by_model else _ASKING_SHARE, timeout_seconds)):
            found = await retriever.query_tables(request)
    except GroundlineError as error:
        if error.code != Code.UNIMPLEMENTED:  # a retriever of the release before
            progress.degrade(
                passage_pb2.COMPONENT_RETRIEVAL, error_pb2.SEARCH_INCOMPLETE, "tables could not be asked"
            )
        return retriever_service_pb2.QueryTablesResponse()
    progress.paid_by_retriever.append(found.usage)
    if found.fallback_reason:
        progress.degrade(
            passage_pb2.COMPONENT_RETRIEVAL,
            error_pb2.SEARCH_INCOMPLETE,
            "no model planned a question to tables",
        )
    has_value = any(row.cells[-1].text for row in found.rows if row.cells)
    if not (has_value and found.chunks):
        del found.rows[:]
    return found
