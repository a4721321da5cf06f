"""Plans that a language model writes, checked against the tables that it was shown."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.json_format import MessageToDict
from groundline.v1 import chat_pb2, table_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_contracts import limits_of
from groundline_runtime.charges import total, usage_of
from groundline_runtime.context import deadline_within, remaining_seconds
from groundline_runtime.errors import Code, GroundlineError, InternalError, InvalidArgumentError
from groundline_validation import violations_of

from groundline_retriever.scoring import IS_DOWN
from groundline_retriever.tables.checking import check
from groundline_retriever.tables.domain import StoredTable

MAX_TABLES: Final = 8
"""Tables that a model is shown."""

FIRST_ROWS: Final = 5
"""Rows of each that it is shown."""

MAX_COLUMNS: Final = 100
MAX_CELL_CHARACTERS: Final = 80
MAX_PLAN_CHARACTERS: Final = limits_of(pb.PlanTableRequest, "rejected_plan").max_length
MAX_PROBLEMS: Final = limits_of(pb.PlanTableRequest, "problems").max_items
MAX_PROBLEM_CHARACTERS: Final = limits_of(pb.PlanTableRequest, "problems").max_length
PLANNING_SHARE: Final = 0.7
"""Share of a request's remaining time that a model may take; the plan still has to be run after it."""

_ATTEMPTS: Final = 2
# A generator without a model, or of the release before: no plan was to be expected.
_NO_MODEL: Final = frozenset({Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED})


type _Ask = Callable[[pb.PlanTableRequest], Awaitable[pb.PlanTableResponse]]


class ModelPlan(NamedTuple):
    """A plan that fits its table, or the reason for having none."""

    plan: table_pb2.TablePlan | None = None
    table: StoredTable | None = None
    model: str = ""
    """Empty if no model has answered."""
    usage: chat_pb2.Usage = chat_pb2.Usage()
    failure: str = ""
    """Reason of the error for which there is no plan; empty if the model sees none, or there is no model."""


class ModelPlans:
    """Plans of a language model. One that does not fit its table is repaired once."""

    def __init__(self, ask: _Ask, *, timeout_seconds: float) -> None:
        """Take what asks the model, and raises GroundlineError."""
        self._ask = ask
        self._timeout_seconds = timeout_seconds

    async def plan(
        self, question: str, tables: Sequence[StoredTable], rows: Mapping[int, Sequence[Sequence[str]]]
    ) -> ModelPlan:
        """Return the plan of a question to one of the tables, of which the model sees these rows by their
        ids."""
        request = pb.PlanTableRequest(
            question=question, tables=[_sampled(each, rows.get(each.table_id, ())) for each in tables]
        )
        paid: list[chat_pb2.Usage] = []
        left = remaining_seconds()
        seconds = self._timeout_seconds
        try:
            async with deadline_within(seconds if left is None else min(seconds, left * PLANNING_SHARE)):
                return await self._fitting(request, tables, paid)
        except GroundlineError as error:
            if error.code in _NO_MODEL:
                return ModelPlan()
            if error.code not in IS_DOWN:
                raise
            return ModelPlan(usage=total([*paid, usage_of(error)]), failure=error.reason)

    async def _fitting(
        self, request: pb.PlanTableRequest, tables: Sequence[StoredTable], paid: list[chat_pb2.Usage]
    ) -> ModelPlan:
        for _ in range(_ATTEMPTS):
            planned = await self._ask(request)
            paid.append(planned.usage)
            if not planned.HasField("plan"):
                return ModelPlan(model=planned.model, usage=total(paid))
            plan = planned.plan
            table = _named(plan, tables)
            problems = _problems(plan, table)
            if not problems:
                return ModelPlan(plan, table, planned.model, total(paid))
            request.rejected_plan = _written(plan)
            request.problems[:] = problems[:MAX_PROBLEMS]
        raise InternalError("MODEL_OUTPUT_INVALID", "the plan does not fit its table, twice")


def _named(plan: table_pb2.TablePlan, tables: Sequence[StoredTable]) -> StoredTable:
    """Return the table of a plan. Raises InternalError if it is none of those that the model saw."""
    for each in tables:
        if (each.table.document_id, each.table.table_index) == (plan.document_id, plan.table_index):
            return each
    raise InternalError("MODEL_OUTPUT_INVALID", "the plan is of a table that was not given")


def _written(plan: table_pb2.TablePlan) -> str:
    """Return a plan as JSON without its table, which goes by a number."""
    fields = MessageToDict(plan, preserving_proto_field_name=True)
    said = {name: value for name, value in fields.items() if name not in {"document_id", "table_index"}}
    return json.dumps(said, ensure_ascii=False)[:MAX_PLAN_CHARACTERS]


def _problems(plan: table_pb2.TablePlan, stored: StoredTable) -> list[str]:
    """Return what keeps a plan from being run on a table."""
    violations = violations_of(plan, "plan")
    if not violations:
        try:
            check(plan, stored.table)
        except InvalidArgumentError as error:
            violations.extend(error.violations)
    return [f"{each.field}: {each.description}"[:MAX_PROBLEM_CHARACTERS] for each in violations]


def _sampled(stored: StoredTable, rows: Sequence[Sequence[str]]) -> pb.SampledTable:
    """Return a table with its first columns and rows, and the beginnings of their cells."""
    sampled = pb.SampledTable(table=stored.table)
    del sampled.table.columns[MAX_COLUMNS:]
    for row in rows:
        sampled.rows.add(cells=(cell[:MAX_CELL_CHARACTERS] for cell in row[:MAX_COLUMNS]))
    return sampled
