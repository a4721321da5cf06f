import pytest
from groundline_coordinator.domain import (
    Chunk,
    Explanation,
    GenerationLimits,
    HistoryMessage,
    Passage,
    estimated_tokens,
    extended_text,
    merged,
    recent_history,
    shortened,
    without_repeats,
)
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


def test_given_options_win_within_objects_too() -> None:
    assert merged({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 0}, "e": 3}) == {
        "a": 1,
        "b": {"c": 0, "d": 2},
        "e": 3,
    }


def chunk(index: int, text: str = "", start: int = 0) -> Chunk:
    return Chunk(
        str(index), "d", "c", index, text, "", "", "", "file", "", start, start + len(text), {}, None
    )


def passage(index: int, *neighbours: int) -> Passage:
    return Passage(chunk(index), 1.0, Explanation(), neighbours=[chunk(other) for other in neighbours])


def test_a_chunk_stands_in_one_passage_only() -> None:
    shown = without_repeats([passage(5, 4, 6), passage(7, 6, 8), passage(8, 7, 9), passage(20)])
    assert [[other.chunk_index for other in each.neighbours] for each in shown] == [[4, 6], [], [9], []]


def test_a_passage_is_read_with_its_neighbours_as_in_the_document() -> None:
    neighbours = [chunk(3, "After a gap.", 40), chunk(1, "Before. ", 2)]
    whole = Passage(chunk(2, "The passage.", 10), 1.0, Explanation(), neighbours=neighbours)
    assert extended_text(whole) == "Before. The passage.\nAfter a gap."
    assert extended_text(passage(1)) == ""


def test_history_is_bounded_by_tokens() -> None:
    messages = [HistoryMessage("user", "x" * size) for size in (4, 8, 12, 16)]
    assert recent_history(messages, max_tokens=9) == messages[1:]
    assert recent_history(messages, max_tokens=8) == messages[2:]
    assert recent_history(messages, max_tokens=3) == []


def test_answers_that_were_cancelled_at_once_are_no_history() -> None:
    messages = [HistoryMessage("user", "q"), HistoryMessage("assistant", "")]
    assert recent_history(messages, max_tokens=9) == messages[:1]


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("five!", 2), ("你好", 2), ("你好 yes", 3)]
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


LIMITS = GenerationLimits(
    models=("m", "n"),
    max_temperature=0.5,
    max_output_tokens=100,
    max_top_k=5,
    lowest_min_relevance=0.2,
    fixed_prompt=True,
)


def test_everything_beyond_a_limit_is_named() -> None:
    generation = {
        "model": "x",
        "temperature": 0.6,
        "maxOutputTokens": 101,
        "minRelevance": 0.0,
        "systemPrompt": "",
        "promptTemplate": "t",
    }
    assert [path for path, _ in LIMITS.excesses({"topK": 6}, generation)] == [
        "generation.model",
        "generation.temperature",
        "generation.max_output_tokens",
        "rerank.top_k",
        "generation.min_relevance",
        "generation.system_prompt",
        "generation.prompt_template",
    ]


@pytest.mark.parametrize(
    "generation", [{}, {"model": "n", "temperature": 0.5, "maxOutputTokens": 100, "minRelevance": 0.2}]
)
def test_what_is_within_the_limits_passes(generation: dict[str, object]) -> None:
    assert list(LIMITS.excesses({"topK": 5}, generation)) == []
    assert list(GenerationLimits().excesses({"topK": 100}, {"model": "x", "systemPrompt": "s"})) == []
