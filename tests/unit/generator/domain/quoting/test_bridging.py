from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.38, max_sentences=3)

TRACTOR = numbered(
    1,
    "The Buzzard 140 has 141 horsepower. Its filters are listed in parts group F4. It was bought in 2021.",
    title="Tractor Buzzard",
)
PARTS = numbered(
    2,
    "Parts group F2: air filters, shelf 9. Parts group F4: air filters, shelf 12. Orders are due at noon.",
    title="Parts groups",
)
CLOCK = numbered(
    3,
    "Die Turmuhr stammt aus Hainfeld. Restauriert wurde sie von Anselm Brück. Sie geht nach.",
    title="Uhren",
)
WORKSHOPS = numbered(
    4, "Anselm Brück hat seine Werkstatt in Weida, Telefon 771. Aufträge sind teuer.", title="Werkstätten"
)
CLUSTERS = numbered(
    5, "Invoices are sent from Kiel. The mail gateway runs on the Tarpon cluster.", title="Services"
)
WINDOWS = numbered(
    6,
    "The Marlin cluster is restarted on Sundays. The Tarpon cluster is restarted on Fridays.",
    title="Windows",
)
GROUPS = numbered(
    7, "Im Lehrbecken trainiert abends die Gruppe Seepferd. Duschen ist Pflicht.", title="Becken"
)
TRAINERS = numbered(
    8, "Die Gruppe Seepferd wird von Jonas Wittke geleitet. Die Kasse hilft.", title="Trainer"
)


def quoted(query: str, *passages: pb.NumberedPassage) -> list[tuple[int, str]]:
    return [(each.number, each.text) for each in answers(query, passages).extracts]


@pytest.mark.parametrize(
    ("query", "passages", "link", "told"),
    [
        ("On which shelf are the filters of the Buzzard 140?", (TRACTOR, PARTS), "group F4.", "shelf 12"),
        ("Telefonnummer von dem, der die Turmuhr restauriert hat?", (CLOCK, WORKSHOPS), "Brück.", "771"),
        ("When is the mail gateway restarted?", (CLUSTERS, WINDOWS), "Tarpon cluster.", "Fridays"),
        ("Wer leitet die Gruppe, die im Lehrbecken trainiert?", (GROUPS, TRAINERS), "Seepferd.", "Wittke"),
    ],
)
def test_what_another_document_says_of_a_name_is_quoted_behind_it(
    query: str, passages: tuple[pb.NumberedPassage, ...], link: str, told: str
) -> None:
    found = quoted(query, *passages)
    assert any(number == passages[0].number and link in text for number, text in found)
    assert found[-1][0] == passages[1].number
    assert told in found[-1][1]


def test_no_more_is_quoted_if_the_best_passage_lacks_nothing() -> None:
    found = quoted("Which parts group lists the filters of the Buzzard 140?", TRACTOR, PARTS)
    assert "shelf 12" not in " ".join(text for number, text in found if number == 2)


def test_a_name_of_one_word_leads_to_nothing_that_does_not_tell_what_is_lacking() -> None:
    other = numbered(9, "It restarts at noon. The Tarpon cluster has two racks.", title="Racks")
    assert all(number != 9 for number, _ in quoted("When is the mail gateway restarted?", CLUSTERS, other))


def test_a_name_that_most_passages_have_leads_nowhere() -> None:
    others = [
        numbered(number, f"Anselm Brück opened hall {number}. It is closed on Sundays.", title="Halls")
        for number in range(5, 9)
    ]
    query = "Telefonnummer von dem, der die Turmuhr restauriert hat?"
    assert all(number != 4 for number, _ in quoted(query, CLOCK, WORKSHOPS, *others))


def test_a_question_that_is_refused_stays_refused() -> None:
    assert quoted("Which paint covers the cabin of the Kestrel 90?", TRACTOR, PARTS) == []
