"""Quotations of sentences, as answers show them."""

from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered


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
