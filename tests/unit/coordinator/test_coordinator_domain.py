"""Options over defaults and within limits, passages, sources and history."""

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, collection_pb2, error_pb2, options_pb2, passage_pb2, retriever_service_pb2
from groundline_coordinator.domain.calibration import calibrate
from groundline_coordinator.domain.conversation import recent_history
from groundline_coordinator.domain.locations import add_boxes, locate
from groundline_coordinator.domain.options import plan_of
from groundline_coordinator.domain.passages import MAX_PASSAGE_CHARACTERS, extended_text, suspicions
from groundline_coordinator.domain.snippets import shortened, snippet
from groundline_coordinator.domain.turns import Inquiry, Plan
from groundline_coordinator.service.locating import locate_citations
from groundline_coordinator.service.progress import StageReport
from groundline_runtime.errors import InvalidArgumentError, UnavailableError
from groundline_tests.coordinator.fakes import FakeRetriever, collection, make_chunk
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(), st.integers(1, 50))
def test_a_shortened_text_keeps_its_limit(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("  short ", 10, "short"),
        ("cut at a word", 9, "cut at a…"),
        ("cut at words", 9, "cut at…"),
        ("unbreakable", 5, "unbr…"),
        ("exactly ten", 11, "exactly ten"),
    ],
)
def test_text_is_cut_at_a_word(text: str, limit: int, expected: str) -> None:
    assert shortened(text, limit) == expected


@given(st.text(min_size=20), st.text(), st.integers(150, 400))
def test_a_snippet_keeps_its_limit(text: str, query: str, limit: int) -> None:
    assert len(snippet(text * 20, query, limit)) <= limit


def test_a_snippet_is_around_what_was_asked_for() -> None:
    text = "The hatch is grey. " * 30 + "Close the four screws with 1.8 Nm. " + "The lamp is green. " * 30
    found = snippet(text, "Which torque closes the screws of the hatch?", 200)
    assert found.startswith("…The hatch is grey. ")
    assert "grey. Close the four screws with 1.8 Nm. The lamp" in found
    assert found.endswith("…")


@pytest.mark.parametrize("screw", ["screw", "Screws", "»SCREW«", "İ screw"])
def test_a_snippet_is_around_words_that_begin_with_one_that_was_asked_for(screw: str) -> None:
    text = "Unscrew corkscrews. " * 30 + f"Turn each {screw}. " + "The lamp is green. " * 30
    assert f"Turn each {screw}." in snippet(text, "Which screw?", 200)


@pytest.mark.parametrize("query", ["", "What of it?", "The lamp is green"])
def test_a_snippet_is_the_beginning_where_nothing_later_is_better(query: str) -> None:
    text = "The lamp is green. " * 30
    assert snippet(text, query, 200) == shortened(text, 200)


def chunk(index: int, text: str = "", start: int = 0) -> passage_pb2.Chunk:
    return make_chunk(index, text, chunk_index=index, start_offset=start, end_offset=start + len(text))


def passage(chunk: passage_pb2.Chunk, *adjacent: passage_pb2.Chunk) -> passage_pb2.Passage:
    return passage_pb2.Passage(chunk=chunk, adjacent_chunks=adjacent)


def test_a_passage_is_read_with_its_adjacent_chunks_as_in_the_document() -> None:
    adjacent = [chunk(3, "After a gap.", 40), chunk(1, "Before. ", 2)]
    assert (
        extended_text(passage(chunk(2, "The passage.", 10), *adjacent))
        == "Before. The passage.\nAfter a gap."
    )
    assert extended_text(passage(chunk(1))) == ""


def test_a_passage_never_outgrows_what_the_generator_takes() -> None:
    size = MAX_PASSAGE_CHARACTERS // 3
    own, near, far = chunk(2, "b" * size, size), chunk(1, "a" * size, 0), chunk(4, "d" * size, 3 * size)
    text = extended_text(passage(own, far, near))
    assert len(text) <= MAX_PASSAGE_CHARACTERS
    assert text == "a" * size + "b" * size
    assert len(extended_text(passage(chunk(1, "x" * (MAX_PASSAGE_CHARACTERS + 1))))) == MAX_PASSAGE_CHARACTERS


def paged(index: int, text: str, page: int) -> passage_pb2.Chunk:
    found = chunk(index, text, 0)
    found.metadata.update({"page": page})
    return found


def test_a_citation_is_on_the_page_of_its_supporting_sentence() -> None:
    text = "\f\nThe valve opens.\f\n\nIt closes at\n9 Nm.\f\fThe end."
    found = passage(paged(2, text, 7), paged(3, "Spare parts.\fScrews.", 10))
    expected = {"The valve opens.": 7, "It closes at 9 Nm.": 8, "…The end.": 10, "Screws.": 11, "Nowhere.": 0}
    citations = [chat_pb2.Citation(source_number=1, supporting_text=each) for each in expected]
    locate(citations, [found])
    assert [each.page for each in citations] == list(expected.values())


def test_a_citation_has_the_boxes_of_the_lines_that_its_sentence_stands_in_across_pages_and_chunks() -> None:
    first, second = paged(1, "One. Two", 3), paged(2, " goes\non.\f\n\nThree.", 3)
    first.end_offset = second.start_offset = 8
    second.end_offset = 26
    lines = [
        retriever_service_pb2.DocumentLines(
            document_id=first.document_id,
            page=passage_pb2.PageLines(
                page=page,
                starts=starts,
                lefts=[200, 0],
                rights=[1000, -500],
                tops=[100, 40],
                heights=[30, 30],
            ),
        )
        for page, starts in ((4, [19, 3]), (3, [0, 14]))
    ]
    citations = [
        chat_pb2.Citation(source_number=1, supporting_text=each) for each in ("Two goes on.", "One.")
    ]
    locations = locate(citations, [passage(second, first)])
    add_boxes(locations, lines)
    assert [chunk.chunk_id for chunk in locations[0].chunks] == ["1", "2"]
    boxes = [[box.page, box.left, box.top, box.right, box.bottom] for each in citations for box in each.boxes]
    expected = [[3, 0.1, 0.05, 0.5, 0.065], [3, 0.1, 0.07, 0.25, 0.085], [3, 0.1, 0.05, 0.5, 0.065]]
    assert boxes == [pytest.approx(box) for box in expected]


def test_a_citation_of_a_text_with_form_feeds_has_a_page_and_no_boxes() -> None:
    citation = chat_pb2.Citation(source_number=1, supporting_text="Two.")
    add_boxes(locate([citation], [passage(paged(1, "One.\fTwo.", 1))]), [])
    assert (citation.page, list(citation.boxes)) == (2, [])


async def test_boxes_that_cannot_be_read_are_declared_and_the_page_stays() -> None:
    class Lost(FakeRetriever):
        async def fetch(self, request: Any) -> Any:
            raise UnavailableError("DATABASE_UNAVAILABLE", "gone")

    citation, progress = chat_pb2.Citation(source_number=1, supporting_text="One."), StageReport()
    await locate_citations(Lost(), [citation], [passage(paged(1, "One.", 3))], progress, 5.0)
    assert (citation.page, list(citation.boxes)) == (3, [])
    assert [each.component for each in progress.degraded] == [passage_pb2.COMPONENT_CITATION_BOXES]


def test_a_citation_of_a_document_without_pages_has_none() -> None:
    citations = [chat_pb2.Citation(source_number=number, supporting_text="Words.") for number in (1, 2)]
    assert not locate(citations, [passage(chunk(1, "Words.", 0))])
    assert [each.page for each in citations] == [0, 0]


def message(
    content: str, role: chat_pb2.ChatMessage.Role.ValueType = chat_pb2.ChatMessage.USER
) -> chat_pb2.ChatMessage:
    return chat_pb2.ChatMessage(role=role, content=content)


def test_history_is_bounded_by_tokens() -> None:
    messages = [message("x" * size) for size in (4, 8, 12, 16)]
    assert recent_history(messages, max_tokens=9) == messages[1:]
    assert recent_history(messages, max_tokens=8) == messages[2:]
    assert recent_history(messages, max_tokens=3) == []


def test_answers_that_were_cancelled_at_once_are_no_history() -> None:
    messages = [message("q"), message("", chat_pb2.ChatMessage.ASSISTANT)]
    assert recent_history(messages, max_tokens=9) == messages[:1]


LIMITS = collection_pb2.GenerationLimits(
    models=["m", "n"],
    max_temperature=0.5,
    max_output_tokens=100,
    max_top_k=5,
    lowest_min_relevance=0.25,
    fixed_prompt=True,
)


def plan(
    *collections: Any, rerank: dict[str, Any] | None = None, generation: dict[str, Any] | None = None
) -> Plan:
    options = options_pb2.RerankOptions(**(rerank or {}))
    inquiry = Inquiry("q", [], Struct(), options_pb2.RetrievalOptions(), options)
    return plan_of(inquiry, options_pb2.GenerationOptions(**(generation or {})), collections)


def test_everything_beyond_a_limit_is_named() -> None:
    generation = {
        "model": "x",
        "temperature": 0.6,
        "max_output_tokens": 101,
        "min_relevance": 0.0,
        "system_prompt": "",
        "prompt_template": "t",
    }
    with pytest.raises(InvalidArgumentError) as refused:
        plan(collection("strict", generation_limits=LIMITS), rerank={"top_k": 6}, generation=generation)
    assert [violation.field for violation in refused.value.violations] == [
        "options.generation.model",
        "options.generation.temperature",
        "options.generation.max_output_tokens",
        "options.generation.min_relevance",
        "options.generation.system_prompt",
        "options.generation.prompt_template",
        "options.rerank.top_k",
    ]
    assert "strict" in refused.value.message


@pytest.mark.parametrize(
    "generation", [{}, {"model": "n", "temperature": 0.5, "max_output_tokens": 100, "min_relevance": 0.25}]
)
def test_what_is_within_the_limits_passes(generation: dict[str, Any]) -> None:
    plan(collection("strict", generation_limits=LIMITS), rerank={"top_k": 5}, generation=generation)
    plan(collection("free"), rerank={"top_k": 100}, generation={"model": "x", "system_prompt": "s"})


def test_only_what_is_marked_and_cited_is_suspected() -> None:
    sources = [chat_pb2.Source(number=number) for number in (1, 2, 3)]
    for source in sources[:2]:
        source.metadata["promptInjection"] = True
    [issue] = suspicions(sources, {2, 3})
    assert (issue.reason, issue.message[:3]) == (error_pb2.SUSPECTED_PROMPT_INJECTION, "[2]")


@pytest.mark.parametrize(
    ("confidence", "expected"), [(0.0, 0.1), (0.2, 0.1), (0.4, 0.3), (0.6, 0.5), (0.9, 0.5)]
)
def test_confidence_is_mapped_between_the_points_and_kept_too(confidence: float, expected: float) -> None:
    points = [
        collection_pb2.CalibrationPoint(confidence=0.2, probability=0.1),
        collection_pb2.CalibrationPoint(confidence=0.6, probability=0.5),
    ]
    validation = chat_pb2.Validation(confidence=confidence)
    calibrate(validation, collection_pb2.Calibration(points=points))
    assert validation.confidence == pytest.approx(expected)
    assert validation.raw_confidence == pytest.approx(confidence)


def test_without_a_calibration_confidence_stays_as_it_is() -> None:
    validation = chat_pb2.Validation(confidence=0.7)
    calibrate(validation, collection_pb2.Calibration())
    assert validation.confidence == validation.raw_confidence == pytest.approx(0.7)


def test_the_calibration_of_one_collection_counts_for_it_alone() -> None:
    calibration = collection_pb2.Calibration(
        points=[collection_pb2.CalibrationPoint(confidence=each, probability=each) for each in (0, 1)]
    )
    mapped, other = collection("mapped", calibration=calibration), collection("other")
    assert plan(mapped).calibration == calibration
    assert not plan(mapped, other).calibration.points
