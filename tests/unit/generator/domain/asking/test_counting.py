"""Counts in other words than the question's, and words whose parts stand apart."""

from functools import partial

import pytest
from groundline_generator.domain.asking.asked import tells
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)

WERK = numbered(
    1,
    "Urlaub wird drei Wochen vor dem ersten Urlaubstag beantragt. Vollzeitbeschäftigte haben Anspruch auf 30 "
    "Arbeitstage Erholungsurlaub. Bis zu zehn Tage können übertragen werden. Der Antrag ist binnen fünf "
    "Arbeitstagen zu prüfen.",
    title="Urlaub im Werk",
)
LOHN = numbered(2, "Der Stundenlohn beträgt 14,50 Euro. Jede Stunde wird erfasst. Lohn gibt es am Ersten.")
GEHALT = numbered(
    3, "Der Lohn je Stunde beträgt 14,50 Euro. Die Stunde beginnt um acht. Lohn gibt es am Ersten."
)
GAME = numbered(
    4,
    "The game of Hazard is played with friends. Hazard is played in the evening. In Hazard one card may be "
    "kept. A player has no cards at the end. Overview: a deck of 101 cards is dealt. The club has thirty "
    "members.",
    title="Hazard",
)


def test_those_who_have_none_of_a_thing_are_not_counted() -> None:
    assert answers("How many players are there in Hazard?", [GAME]).extracts == ()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Wie viele Urlaubstage habe ich im Werk?", "30 Arbeitstage Erholungsurlaub"),
        ("Wie viele Tage Urlaub habe ich im Werk?", "30 Arbeitstage Erholungsurlaub"),
        ("wie viele urlaubstage habe ich im werk", "30 Arbeitstage Erholungsurlaub"),
        ("wie viele tage urlaub habe ich im werk", "30 Arbeitstage Erholungsurlaub"),
        ("How many cards are in a deck of Hazard?", "101 cards"),
        ("How many members does the club have?", "thirty members"),
    ],
)
def test_things_are_counted_in_other_words(query: str, said: str) -> None:
    found = answers(query, [WERK if query.casefold().startswith("wie") else GAME]).extracts
    assert said in " ".join(each.text for each in found)


@pytest.mark.parametrize("query", ["Was ist der Lohn je Stunde?", "Wie hoch ist der Stundenlohn?"])
def test_a_compound_and_its_parts_mean_the_same(query: str) -> None:
    for passage in (LOHN, GEHALT):
        assert "14,50 Euro" in answers(query, [passage]).extracts[0].text


def test_a_line_that_repeats_a_heading_is_no_answer() -> None:
    steps = numbered(
        5,
        "# Backups\n\n- Step 1: Create a rule\n- Step 2: Run the rule\n\n## Step 1: Create a rule\n\n"
        "Then create a rule:\n\n- click *Add*\n- name the folder\n",
    )
    found = [each.text for each in answers("How do I create a rule?", [steps]).extracts]
    assert "click *Add*" in " ".join(found)


@pytest.mark.parametrize(
    "link", ["[Summoning the assembly](files/a.pdf)", "**[Summoning the assembly](<a b.pdf>)**"]
)
def test_a_line_that_is_a_link_alone_tells_nobody_and_no_number(link: str) -> None:
    passage = numbered(6, f"# Assembly\n\n- {link}\n\nThe hall is heated.\n")
    for query in ("Who is summoning the assembly in spring?", "How much is summoning the assembly?"):
        assert not answers(query, [passage]).extracts
    assert link in answers("Which file is on summoning the assembly?", [passage]).extracts[0].text
    told = numbered(7, "The board is summoning the assembly by letter.")
    assert answers("Which file is on summoning the assembly?", [passage, told]).extracts[0].number == 7


PARTS = [
    "(2) The trial period ends as § 22 and section 3, paragraph 1 say.",
    "See [the trial period](https://a.example/936/) and http://b.example/2015.",
    "(2) Für die Probezeit gelten § 22 Abs. 2 Nr. 1 und Artikel 4 Satz 1 und 2 entsprechend.",
]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("How long is the trial period?", PARTS[0]),
        ("How long is the trial period?", PARTS[1]),
        ("Wie lange dauert die Probezeit?", PARTS[2]),
    ],
)
def test_the_number_of_a_part_of_a_text_or_in_an_address_tells_no_amount(query: str, parts: str) -> None:
    assert not tells(query, parts)
    assert tells(query, f"{parts} 3")
