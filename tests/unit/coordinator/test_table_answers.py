"""Answers out of tables, in place of answers that are written from passages."""

import pytest
from groundline.v1 import chat_pb2, error_pb2, passage_pb2, retriever_service_pb2, table_pb2
from groundline_coordinator.domain.table_answers import table_answer
from groundline_runtime.errors import UnavailableError, UnimplementedError
from groundline_tests.coordinator.fakes import FakeGenerator
from groundline_tests.coordinator.workflow import FOUND, Completed, Sources, World, question

RECORDS = "Model: DN-6\nWeight (kg): 2.8\n\nModel: DN-8\nWeight (kg): 3.1"


def row(text: str, start: int, *references: str, number: str = "1") -> table_pb2.TableAnswerRow:
    sources = [table_pb2.CellReference(row=3, reference=each, start_offset=start) for each in references]
    return table_pb2.TableAnswerRow(text=text, sources=sources, cells=[table_pb2.TableCell(text=number)])


def found(*rows: table_pb2.TableAnswerRow) -> retriever_service_pb2.QueryTablesResponse:
    chunk = passage_pb2.Chunk(
        chunk_id="7",
        document_id="d",
        collection_id="docs",
        title="Pumps",
        text=RECORDS,
        start_offset=100,
        end_offset=100 + len(RECORDS),
    )
    return retriever_service_pb2.QueryTablesResponse(
        plan=table_pb2.TablePlan(document_id="d"), rows=rows, chunks=[chunk]
    )


ONE = found(row("DN-6: Weight (kg) 2.8", 100, "A3", "B3"))


def world(tables: retriever_service_pb2.QueryTablesResponse) -> World:
    made = World(generator=FakeGenerator("Never."))
    made.retriever.tables = tables
    return made


async def test_a_question_for_a_table_is_answered_by_it_with_the_cells_and_their_passage() -> None:
    asked = world(ONE)
    events = await asked.chat(question("How heavy is a DN-6?"))
    assert [event for event in events if isinstance(event, str)] == ["DN-6: Weight (kg) 2.8 (A3, B3) [1]"]
    [source] = asked.only(Sources).sources
    assert (source.chunk_id, source.title) == ("7", "Pumps")
    completed = asked.only(Completed)
    assert completed.model == "tables"
    assert completed.finish_reason == chat_pb2.FINISH_REASON_STOP
    assert completed.validation.grounded
    [citation] = completed.citations
    assert (citation.source_number, citation.chunk_id) == (1, "7")
    assert citation.supporting_text == "Model: DN-6\nWeight (kg): 2.8"
    assert asked.generator.calls == []


async def test_an_answer_out_of_a_table_is_stored_like_any_other() -> None:
    asked = world(ONE)
    answered = await asked.answer(question("How heavy is a DN-6?"))
    stored = await asked.messages(answered.thread_id)
    assert stored.messages[-1].content == answered.answer
    assert [each.chunk_id for each in stored.messages[-1].sources] == ["7"]


def test_each_row_stands_in_a_line_of_its_own_with_its_own_citation() -> None:
    second = RECORDS.index("Model: DN-8")
    text, completed = table_answer(found(row("DN-6: a", 100), row("DN-8: b", 100 + second, "A4")))
    assert text == "- DN-6: a\n- DN-8: b (A4) [1]"
    [citation] = completed.citations
    assert text[citation.start_offset : citation.end_offset] == "DN-8: b (A4)"
    assert citation.supporting_text == "Model: DN-8\nWeight (kg): 3.1"


def test_many_rows_are_cut_and_it_is_said() -> None:
    text, completed = table_answer(found(*(row(f"row {number}", 100, f"A{number}") for number in range(30))))
    assert text.count("\n") == 20
    assert text.endswith("\n- …")
    assert len(completed.citations) == 20


def test_a_cell_can_make_no_marker_link_or_image() -> None:
    text, _ = table_answer(found(row("![x](http://a/?q) [2] <img>", 100, "A3")))
    assert text == "!\\[x](http://a/?q) \\[2] \\<img> (A3) [1]"


@pytest.mark.parametrize(
    "tables",
    [
        retriever_service_pb2.QueryTablesResponse(refusal=table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD),
        found(),
        found(row("sum of Price: –", 100, number="")),
    ],
    ids=["no plan", "no row", "nothing to add up"],
)
async def test_without_an_answer_of_a_table_one_is_written(
    tables: retriever_service_pb2.QueryTablesResponse,
) -> None:
    asked = world(tables)
    await asked.chat(question())
    assert len(asked.generator.calls) == 1
    assert asked.degraded() == []


@pytest.mark.parametrize(
    ("text", "uri", "planning"),
    [
        ("Pumps move water.", "a.md", retriever_service_pb2.TABLE_PLANNING_RULES),
        ("| Model | Price |\n| --- | --- |", "a.md", retriever_service_pb2.TABLE_PLANNING_UNSPECIFIED),
        ("Model: DN-6", "a.XLSX", retriever_service_pb2.TABLE_PLANNING_UNSPECIFIED),
    ],
    ids=["prose", "rows", "a sheet"],
)
async def test_a_model_may_plan_only_where_the_best_passage_is_of_a_table(
    text: str, uri: str, planning: retriever_service_pb2.TablePlanning.ValueType
) -> None:
    asked = world(found())
    best = asked.retriever.chunks[int(FOUND.passages[0].chunk.chunk_id)]
    best.text, best.uri = text, uri
    await asked.chat(question())
    [request] = asked.retriever.asked_tables
    assert request.planning == planning


async def test_the_plan_of_a_model_stands_under_its_answer_and_its_tokens_are_counted() -> None:
    planned = retriever_service_pb2.QueryTablesResponse()
    planned.CopyFrom(ONE)
    planned.model, planned.explanation, planned.usage.output_tokens = "m", "Weight\nof [DN-6](x)", 7
    asked = world(planned)
    answered = await asked.answer(question("Combien pèse le DN-6 ?"))
    assert answered.answer.endswith("[1]\n\nPlan: Weight of \\[DN-6](x)")
    assert answered.completed.usage.output_tokens == 7
    assert answered.completed.validation.confidence < 0.9


async def test_a_model_that_was_not_heard_is_declared_and_its_tokens_are_counted() -> None:
    refused = retriever_service_pb2.QueryTablesResponse(fallback_reason="DEADLINE_EXCEEDED")
    refused.usage.prompt_tokens = 40
    asked = world(refused)
    answered = await asked.answer(question())
    assert [each.component for each in answered.completed.degraded] == [passage_pb2.COMPONENT_RETRIEVAL]
    assert answered.completed.usage.prompt_tokens >= 40


async def test_tables_are_not_asked_where_the_question_has_a_filter_or_a_context() -> None:
    asked = world(ONE)
    await asked.chat(question(filter={"year": 2024}))
    await asked.chat(question(additional_context="It weighs 5 kg."))
    assert asked.retriever.asked_tables == []


async def test_tables_that_cannot_be_asked_are_declared_and_the_answer_is_written() -> None:
    asked = world(ONE)
    asked.retriever.tables_failure = UnavailableError("DATABASE_UNAVAILABLE", "away")
    await asked.chat(question())
    assert asked.degraded() == [(passage_pb2.COMPONENT_RETRIEVAL, error_pb2.SEARCH_INCOMPLETE)]
    assert len(asked.generator.calls) == 1


async def test_a_retriever_of_the_release_before_has_no_tables() -> None:
    asked = world(ONE)
    asked.retriever.tables_failure = UnimplementedError("UNIMPLEMENTED", "unknown method")
    await asked.chat(question())
    assert asked.degraded() == []
