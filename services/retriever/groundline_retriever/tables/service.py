"""Questions to tables: a table is found, a plan made and checked, and PostgreSQL answers."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Protocol

from groundline.v1 import options_pb2, table_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_language import guess_language
from groundline_runtime.charges import charge, metered, total
from groundline_runtime.context import Caller, current_trace_id, has_begun
from groundline_runtime.errors import FieldViolation, InvalidArgumentError, NotFoundError
from groundline_runtime.quotas import Spending
from groundline_tables.language import LANGUAGES
from groundline_tables.matching import Known, phrases_of
from groundline_tables.questions import Planned, plan_for

from groundline_retriever.passages import Wanted
from groundline_retriever.ports import ChunkStore
from groundline_retriever.service import SearchService
from groundline_retriever.tables.checking import check
from groundline_retriever.tables.domain import AnswerRow, CheckedPlan, StoredTable
from groundline_retriever.tables.planning import FIRST_ROWS, MAX_TABLES, ModelPlans
from groundline_retriever.tables.words import explained, in_words

RULES: Final = "rules"
"""Model of plans that no language model wrote."""

MAX_CANDIDATES: Final = 50
"""Tables that a question is tried on. Where there are more, those of the documents that a search finds."""

SEARCHED_PASSAGES: Final = 30
MAX_SHOWN_TABLES: Final = 20
MAX_LISTED_TABLES: Final = 200
MAX_SHOWN_COLUMNS: Final = 100

MAX_ORDERED_ROWS: Final = 1000
"""Rows among which the first or the last is asked for; of more it is not."""

MAX_CHUNKS: Final = 8
"""Maximum chunks that come with an answer, as the contract says."""

_PLACED_ROWS: Final = 50
"""Rows whose chunks are looked for."""

_COMPUTED_DIGITS: Final = 15


class TableStore(Protocol):
    """Tables of documents. Every method sees only those that the principals may read, in the revision in use.

    Raises UnavailableError if the database is out of reach.
    """

    async def some(
        self, principals: Sequence[str], collection_ids: Sequence[str], limit: int
    ) -> Sequence[StoredTable]:
        """Return tables of the collections, or of all where none is named, `limit` at most."""

    async def of_document(
        self, principals: Sequence[str], collection_ids: Sequence[str], document_id: str, limit: int
    ) -> Sequence[StoredTable]:
        """Return the tables of a document in their order, `limit` at most."""

    async def of_documents(
        self,
        principals: Sequence[str],
        collection_ids: Sequence[str],
        document_ids: Sequence[str],
        limit: int,
    ) -> Sequence[StoredTable]:
        """Return the tables of documents in these collections, `limit` at most."""

    async def named(
        self, principals: Sequence[str], collection_ids: Sequence[str], document_id: str, table_index: int
    ) -> StoredTable | None:
        """Return a table by its place in its document; None for a place without one."""

    async def values(
        self, tables: Sequence[StoredTable], keys: Sequence[str]
    ) -> Mapping[int, Mapping[str, frozenset[int]]]:
        """Return which columns hold cells of these keys, by the table's id and the key."""

    async def chunk_ids(self, table: StoredTable, start_offsets: Sequence[int]) -> Sequence[int]:
        """Return the chunks of the table's document that begin before these offsets and end behind them, in
        the order of these."""

    async def first_rows(
        self, tables: Sequence[StoredTable], count: int
    ) -> Mapping[int, Sequence[Sequence[str]]]:
        """Return the texts of the first rows of each table, by its id."""

    async def repeats(self, table: StoredTable, column: int) -> bool:
        """Tell whether several rows of a table, totals apart, have the same cell in a column."""

    async def ask(self, table: StoredTable, checked: CheckedPlan) -> tuple[Sequence[AnswerRow], int]:
        """Return the rows that answer, and how many there are without the limit."""


class TableService:
    """Use case: a question, or a plan, to a table. `by_model` plans questions that rules do not."""

    def __init__(
        self,
        store: TableStore,
        chunks: ChunkStore,
        search: SearchService,
        spending: Spending,
        by_model: ModelPlans | None = None,
    ) -> None:
        self._store = store
        self._chunks = chunks
        self._search = search
        self._spending = spending
        self._by_model = by_model

    async def query(self, caller: Caller, request: pb.QueryTablesRequest) -> pb.QueryTablesResponse:
        """Answer by a plan, say why a question has none, or list the tables of a document.

        Raises NotFoundError (COLLECTION_NOT_FOUND, TABLE_NOT_FOUND), InvalidArgumentError for a plan that
        does not fit its table, and ResourceExhaustedError (QUOTA_EXHAUSTED) if a model is to be asked and a
        budget is spent.
        """
        with metered() as paid:
            response = await self._query(caller, request)
            if paid:
                response.usage.CopyFrom(total(paid))
        return response

    async def _query(self, caller: Caller, request: pb.QueryTablesRequest) -> pb.QueryTablesResponse:
        await self._search.require_collections(caller, request.collection_ids)
        response = pb.QueryTablesResponse(trace_id=current_trace_id() or "")
        if request.HasField("plan"):
            plan = request.plan
            table = await self._store.named(
                caller.principals, request.collection_ids, plan.document_id, plan.table_index
            )
            if table is None:
                raise _not_found(plan.document_id, plan.table_index)
            await self._answer(caller, table, plan, response)
            return response
        if request.document_id and not request.question.strip():
            await self._list(caller, request, response)
            return response
        tables = await self._candidates(caller, request)
        values = await self._store.values(tables, phrases_of(request.question)) if tables else {}
        known = [Known(each.table, values.get(each.table_id, {})) for each in tables]
        planned = await asyncio.to_thread(plan_for, request.question, known)
        response.model = RULES
        if planned.plan is not None:
            table = tables[planned.place]
            await self._answer(caller, table, planned.plan, response, planned.language)
            if not _means_two_things(response, planned) and await self._is_in_order(table, planned):
                return response
            tables, planned = [table], Planned(refusal=table_pb2.TABLE_REFUSAL_AMBIGUOUS, likeliest=[0])
            response = pb.QueryTablesResponse(trace_id=response.trace_id, model=RULES)
        likeliest = [tables[place] for place in planned.likeliest]
        if (
            likeliest
            and request.planning != pb.TABLE_PLANNING_RULES
            and await self._answered_by_model(caller, request.question, likeliest[:MAX_TABLES], response)
        ):
            return response
        response.refusal = planned.refusal
        response.unknown_words.extend(planned.unknown_words)
        response.tables.extend(_shown(each.table) for each in likeliest[:MAX_SHOWN_TABLES])
        return response

    async def _is_in_order(self, stored: StoredTable, planned: Planned) -> bool:
        """Tell whether the first or last row by its day is also that by the order of the table: "the last
        game" may mean either."""
        if planned.plan is None or not planned.ordinal:
            return True
        plan = table_pb2.TablePlan()
        plan.CopyFrom(planned.plan)
        plan.limit = MAX_ORDERED_ROWS
        by_day, total = await self._store.ask(stored, check(plan, stored.table))
        if total > MAX_ORDERED_ROWS:
            return False
        places = [row.row_numbers[0] for row in by_day]
        ends = sorted(place for place in places if place is not None)
        return bool(ends) and places[0] == ends[0 if planned.ordinal == "first" else -1]

    async def _list(
        self, caller: Caller, request: pb.QueryTablesRequest, response: pb.QueryTablesResponse
    ) -> None:
        tables = await self._store.of_document(
            caller.principals, request.collection_ids, request.document_id, MAX_LISTED_TABLES + 1
        )
        response.tables.extend(_shown(each.table) for each in tables[:MAX_LISTED_TABLES])
        response.has_more = len(tables) > MAX_LISTED_TABLES

    async def _answered_by_model(
        self,
        caller: Caller,
        question: str,
        tables: Sequence[StoredTable],
        response: pb.QueryTablesResponse,
    ) -> bool:
        """Answer by a model's plan, and tell whether it has one."""
        if self._by_model is None:
            return False
        if not has_begun():
            await self._spending.require(caller.owner)
        rows = await self._store.first_rows(tables, FIRST_ROWS)
        written = await self._by_model.plan(question, tables, rows)
        response.model = written.model or response.model
        if written.usage.ListFields():
            charge(written.usage)
            self._spending.book(caller.owner, written.usage)
        response.fallback_reason = written.failure
        if written.plan is None or written.table is None:
            return False
        guessed = guess_language(question)
        language = guessed if guessed in LANGUAGES else LANGUAGES[0]
        await self._answer(caller, written.table, written.plan, response, language)
        return True

    async def _candidates(self, caller: Caller, request: pb.QueryTablesRequest) -> Sequence[StoredTable]:
        """Return the tables that a question may be about."""
        principals, collections = caller.principals, request.collection_ids
        if request.document_id:
            wanted = [request.document_id]
            return await self._store.of_documents(principals, collections, wanted, MAX_CANDIDATES)
        some = await self._store.some(principals, collections, MAX_CANDIDATES + 1)
        if len(some) <= MAX_CANDIDATES:
            return some
        documents = request.document_ids or await self._found(caller, request)
        return await self._store.of_documents(principals, collections, documents, MAX_CANDIDATES)

    async def _found(self, caller: Caller, request: pb.QueryTablesRequest) -> Sequence[str]:
        """Return the documents that a search for the question finds."""
        rerank = options_pb2.RerankOptions(top_k=SEARCHED_PASSAGES)
        found = await self._search.search(
            caller,
            pb.SearchRequest(
                query=request.question,
                collection_ids=request.collection_ids,
                options=options_pb2.SearchOptions(rerank=rerank),
            ),
        )
        charge(found.usage)
        return list(dict.fromkeys(passage.chunk.document_id for passage in found.passages))

    async def _answer(
        self,
        caller: Caller,
        stored: StoredTable,
        plan: table_pb2.TablePlan,
        response: pb.QueryTablesResponse,
        language: str = LANGUAGES[0],
    ) -> None:
        """Put into the response what a plan finds, in words of a language too. Raises InvalidArgumentError,
        and NotFoundError for a table to join that is not there."""
        response.table.CopyFrom(stored.table)
        if plan.HasField("join"):
            stored = await self._joined(caller, stored, plan.join)
        table = stored.table
        checked = check(plan, table)
        if stored.joined and await self._store.repeats(stored.joined, plan.join.joined_column):
            raise InvalidArgumentError(
                [FieldViolation("plan.join.joined_column", "must name each row of its table once")]
            )
        rows, total = await self._store.ask(stored, checked)
        response.plan.CopyFrom(plan)
        response.explanation = explained(plan, table, _name(stored.joined.table) if stored.joined else "")
        response.has_more = total > len(rows)
        response.columns.extend(_columns(checked, table))
        response.rows.extend(
            _computed(row, checked, stored) if plan.function else _selected(row, checked, stored)
            for row in rows
        )
        for row in response.rows:
            row.text = in_words(row, response.columns, language)
        await self._add_chunks(caller, stored, response)

    async def _joined(self, caller: Caller, stored: StoredTable, join: table_pb2.TableJoin) -> StoredTable:
        """Return a table with the columns of another of its document."""
        table = stored.table
        other = await self._store.named(
            caller.principals, [table.collection_id], table.document_id, join.table_index
        )
        # One of another revision is not beside it.
        if other is None or other.table.revision != table.revision:
            raise _not_found(table.document_id, join.table_index)
        if join.column >= len(table.columns) or join.joined_column >= len(other.table.columns):
            raise InvalidArgumentError(
                [FieldViolation("plan.join", "must name a column of each of the two tables")]
            )
        return stored.with_joined(other)

    async def _add_chunks(
        self, caller: Caller, stored: StoredTable, response: pb.QueryTablesResponse
    ) -> None:
        starts = [row.sources[0].start_offset for row in response.rows[:_PLACED_ROWS] if row.sources]
        chunk_ids = await self._store.chunk_ids(stored, list(dict.fromkeys(starts)))
        unique = list(dict.fromkeys(chunk_ids))[:MAX_CHUNKS]
        wanted = [Wanted(stored.table.collection_id, unique)] if unique else []
        found = {each.chunk_id: each.chunk for each in await self._chunks.fetch(wanted, caller.principals)}
        response.chunks.extend(found[each] for each in unique if each in found)


def _means_two_things(response: pb.QueryTablesResponse, planned: Planned) -> bool:
    """Tell whether several rows have the same name: then "how many" of something has two answers, and a
    difference is of more than two rows. One of fewer is none. Nor is one of several rows the first or the
    only one, or one of several groups of a row each the largest."""
    plan = response.plan
    if planned.ordinal or planned.is_only:
        return len(response.rows) != 1
    if planned.is_of_groups:
        return all(row.row_count <= 1 for row in response.rows)
    if plan.function == table_pb2.TABLE_FUNCTION_DIFFERENCE:
        return any(row.row_count != 2 or row.missing_count for row in response.rows)
    return (
        plan.function == table_pb2.TABLE_FUNCTION_COUNT
        and plan.HasField("function_column")
        and not planned.is_distinct
        and any(row.cells[-1].number != row.row_count for row in response.rows)
    )


def _columns(checked: CheckedPlan, table: table_pb2.Table) -> Sequence[table_pb2.TableAnswerColumn]:
    plan = checked.plan
    if not plan.function:
        return [
            table_pb2.TableAnswerColumn(name=table.columns[at].name, unit=table.columns[at].unit)
            for at in checked.columns
        ]
    computed = table_pb2.TableAnswerColumn(function=plan.function)
    if plan.HasField("function_column"):
        column = table.columns[plan.function_column]
        computed.name = column.name
        if plan.function != table_pb2.TABLE_FUNCTION_COUNT:
            computed.unit = column.unit
    if not plan.HasField("group_by"):
        return [computed]
    group = table.columns[plan.group_by]
    return [table_pb2.TableAnswerColumn(name=group.name, unit=group.unit), computed]


def _selected(row: AnswerRow, checked: CheckedPlan, stored: StoredTable) -> table_pb2.TableAnswerRow:
    """Return a row of the table with the cells asked for."""
    answer = table_pb2.TableAnswerRow(row_count=1)
    for at, text, number in zip(checked.columns, row.texts, row.numbers, strict=True):
        cell = answer.cells.add(text=text)
        if number is not None and stored.table.columns[at].type == table_pb2.COLUMN_TYPE_NUMBER:
            cell.number, cell.unit = float(number), stored.table.columns[at].unit
        place = int(at >= stored.width)
        row_number, start = row.row_numbers[place], row.start_offsets[place]
        if text and row_number is not None and start is not None:
            answer.sources.append(_reference(stored, at, row_number, start))
    return answer


def _computed(row: AnswerRow, checked: CheckedPlan, stored: StoredTable) -> table_pb2.TableAnswerRow:
    """Return a value that was computed, behind its group if there is one."""
    plan, [label], [number] = checked.plan, row.texts, row.numbers
    answer = table_pb2.TableAnswerRow(row_count=row.row_count, missing_count=row.missing_count)
    if plan.HasField("group_by"):
        answer.cells.add(text=label)
    column = stored.table.columns[plan.function_column]
    is_count = plan.function == table_pb2.TABLE_FUNCTION_COUNT
    cell = answer.cells.add()
    if number is not None and column.type == table_pb2.COLUMN_TYPE_DATE and not is_count:
        moment = datetime.fromtimestamp(int(number), UTC)
        cell.text = f"{moment:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    elif number is not None:
        cell.text, cell.number = _written(Decimal(number)), float(number)
        cell.unit = "" if is_count else column.unit
    named = plan.function_column if plan.HasField("function_column") else 0
    answer.sources.extend(
        _reference(stored, named, number, start)
        for number, start in zip(row.row_numbers, row.start_offsets, strict=True)
        if number is not None and start is not None
    )
    return answer


def _written(number: Decimal) -> str:
    """Return a number in full; if it has no end, with the digits of a float."""
    if len(number.as_tuple().digits) > _COMPUTED_DIGITS and number != number.to_integral_value():
        number = Decimal(f"{number:.{_COMPUTED_DIGITS}g}")
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _reference(stored: StoredTable, column: int, row: int, start: int) -> table_pb2.CellReference:
    of_table, at = stored, column
    if stored.joined and column >= stored.width:
        of_table, at = stored.joined, column - stored.width
    reference = f"{_letters(of_table.left + at)}{row}" if of_table.left >= 0 else ""
    if reference and of_table is not stored:
        reference = f"{_name(of_table.table)}!{reference}"
    return table_pb2.CellReference(row=row, column=column, reference=reference, start_offset=start)


def _not_found(document_id: str, table_index: int) -> NotFoundError:
    return NotFoundError("TABLE_NOT_FOUND", f"no table {table_index} in {document_id}")


def _name(table: table_pb2.Table) -> str:
    """Return what tells a table from others of its document."""
    return table.sheet or table.name or f"table {table.table_index + 1}"


def _letters(column: int) -> str:
    """Return a column of a sheet, counted from 0, as sheets name it."""
    letters = ""
    while column >= 0:
        letters = chr(ord("A") + column % 26) + letters
        column = column // 26 - 1
    return letters


def _shown(table: table_pb2.Table) -> table_pb2.Table:
    """Return a table with its first columns."""
    shown = table_pb2.Table()
    shown.CopyFrom(table)
    del shown.columns[MAX_SHOWN_COLUMNS:]
    return shown
