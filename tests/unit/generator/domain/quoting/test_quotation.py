"""Quotations of sentences, as answers show them."""

from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered
from hypothesis import given
from hypothesis import strategies as st


def quotes(query: str, text: str) -> list[str]:
    found = extract(query, [numbered(1, text)], min_relevance=0.3, max_sentences=3)
    return [each.text for each in found.extracts]


def test_the_address_that_a_generator_puts_into_a_link_is_not_quoted_and_says_nothing() -> None:
    page = '[page on valves]({% page "how-to/relief-valve/pressure" %}#opening)'
    text = f"Read the {page}. The room is heated."
    assert quotes("Which page is on valves?", text)[0] == "Read the page on valves."
    assert not quotes("What is the pressure of relief?", text)


def test_tags_within_a_sentence_are_not_quoted() -> None:
    text = "The <b>relief valve</b>: it opens<br>at 41 bar. Use List<int> for the values."
    (best, *_) = quotes("At what pressure does the relief valve open?", text)
    assert best == "The relief valve: it opens at 41 bar."
    assert "Use List<int> for the values." in quotes("What holds the values?", text)


QUERIES = st.sampled_from(
    [
        "How",
        "long",
        "many",
        "When",
        "Wer",
        "wie",
        "viele",
        "is",
        "the",
        "Otter",
        "or",
        "cheaper,",
        "April",
        "not",
    ]
)
TEXTS = st.sampled_from(
    [
        "The",
        "Otter",
        "is",
        "14",
        "kg",
        "He",
        "Tarpon K7",
        "nicht",
        "April 2024",
        "| a | 1 |",
        "- ",
        "\n\n",
        "# Otter",
    ]
)


@given(
    st.lists(QUERIES, max_size=9), st.lists(TEXTS, max_size=30), st.none() | st.floats(0, 1), st.floats(0, 1)
)
def test_any_question_over_any_text_is_answered_or_refused(
    query: list[str], text: list[str], similarity: float | None, min_relevance: float
) -> None:
    passages = [numbered(1, " ".join(text), title="Otter"), numbered(2, "Tarpon K7 is in April.")]
    for each in passages:
        if similarity is not None:
            each.similarity = similarity
    found = extract(f"{' '.join(query)}?", passages, min_relevance=min_relevance, max_sentences=3)
    assert found.relevance >= min_relevance or not found.extracts


def test_what_is_near_and_shares_no_word_is_no_error() -> None:
    passage = numbered(1, "Ferries leave at noon. The quay is old.", title="Ferries")
    passage.similarity = 0.9
    for query in ("How long is the sabbatical?", "When does the course begin?", "How many racks are there?"):
        assert not extract(query, [passage], min_relevance=0.38, max_sentences=3).extracts
