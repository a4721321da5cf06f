import pytest
from groundline_generator.domain.checking.citations import CitedAnswer
from groundline_tests.generator.messages import numbered

PASSAGES = {
    1: numbered(1, "Paris is the capital of France. It lies on the Seine.", chunk_id="10"),
    2: numbered(2, "Berlin is the capital of Germany.", chunk_id="20"),
}


def test_citations_span_their_sentence_without_the_marker() -> None:
    answer = (
        "Paris is the capital of France. [1] Berlin is the one of Germany [2] [1]. Rome [1], not Bonn [2]."
    )
    found = CitedAnswer(answer, PASSAGES).citations()
    assert [(c.source_number, answer[c.start_offset : c.end_offset], c.chunk_id) for c in found] == [
        (1, "Paris is the capital of France.", "10"),
        (2, "Berlin is the one of Germany", "20"),
        (1, "Berlin is the one of Germany", "10"),
        (1, "Rome", "10"),
        (2, ", not Bonn", "20"),
    ]
    assert found[0].supporting_text == "Paris is the capital of France."


@pytest.mark.parametrize("text", ["`a[7]` [1]", "```\na[7]\n``` [1]"])
def test_brackets_in_code_are_no_citations(text: str) -> None:
    assert [c.source_number for c in CitedAnswer(text, PASSAGES).citations()] == [1]
