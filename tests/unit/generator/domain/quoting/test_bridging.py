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
LINE = numbered(
    9,
    "Line 3 fills 24 cartons. It is driven by a Harrow K7 motor. Belts are tightened on Mondays.",
    title="Line",
)
MOTORS = numbered(
    10,
    "Harrow K9: change the oil every 1,500 hours. Harrow K7: change the oil every 900 hours.",
    title="Motors",
)
LIFTS = numbered(
    11, "Der Lastenaufzug wird von der Firma Liftwerk Nord gewartet. Er trägt eine Tonne.", title="Aufzüge"
)
FAULTS = numbered(
    12, "Liftwerk Nord ist unter 0800 7712 zu erreichen. Für Rohrbrüche gilt 0800 3344.", title="Störungen"
)
HISTORY = numbered(
    13, "In 2015 Corvane bought the Dutch firm Vloedstaal. A second shift began in 2019.", title="History"
)
SITES = numbered(
    14, "Vloedstaal has its works in Deventer. The office for Poland is in Lublin.", title="Sites"
)
MILL = numbered(15, "Der Mühlentrakt ist alt. Er wurde von Ludwig Harzberger entworfen.", title="Mühlentrakt")
BUILDER = numbered(
    16,
    "Ludwig Harzberger war Baumeister. Geboren wurde er in Passau. Er lernte in Wien.",
    title="Ludwig Harzberger",
)
MIXER = numbered(17, "Line 4 stands in hall 2. Its mixer is a Brockel M3. Hall 2 is heated.", title="Plant")
HELP = numbered(18, "Brockel M3: at night call 0171 55. Tibor M8: call the foreman.", title="Help")
JAMMED = "Somebody has jammed our mixer in hall 2, whom do we call at night?"


def quoted(query: str, *passages: pb.NumberedPassage) -> list[tuple[int, str]]:
    return [(each.number, each.text) for each in answers(query, passages).extracts]


@pytest.mark.parametrize(
    ("query", "passages", "link", "told"),
    [
        ("On which shelf are the filters of the Buzzard 140?", (TRACTOR, PARTS), "group F4.", "shelf 12"),
        ("Telefonnummer von dem, der die Turmuhr restauriert hat?", (CLOCK, WORKSHOPS), "Brück.", "771"),
        ("When is the mail gateway restarted?", (CLUSTERS, WINDOWS), "Tarpon cluster.", "Fridays"),
        ("Wer leitet die Gruppe, die im Lehrbecken trainiert?", (GROUPS, TRAINERS), "Seepferd.", "Wittke"),
        ("How often must the oil of the motor of line 3 be changed?", (LINE, MOTORS), "K7 motor.", "900"),
        ("Wie erreiche ich die Firma, die den Lastenaufzug wartet?", (LIFTS, FAULTS), "gewartet.", "7712"),
        ("Where are the works of the firm that Corvane bought in 2015?", (HISTORY, SITES), "staal.", "Dev"),
        ("Wo wurde geboren, wer den Mühlentrakt entworfen hat?", (MILL, BUILDER), "entworfen.", "Passau"),
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


def test_what_is_relevant_only_together_is_quoted_together() -> None:
    assert quoted(JAMMED, MIXER) == quoted(JAMMED, HELP) == []
    assert quoted(JAMMED, MIXER, HELP) == [
        (17, "Its mixer is a Brockel M3."),
        (18, "Brockel M3: at night call 0171 55."),
    ]


@pytest.mark.parametrize(
    "help_text",
    [
        "Brockel M5: at night call 0171 55. Tibor M8: call the foreman.",
        "The Brockel M3 was delivered in May. Tibor M8: at night call 0171 55.",
    ],
    ids=["of another name", "of another matter"],
)
def test_what_is_not_told_of_the_name_does_not_help_where_nothing_is_relevant(help_text: str) -> None:
    assert quoted(JAMMED, MIXER, numbered(18, help_text, title="Help")) == []


def test_a_name_that_a_third_passage_has_does_not_help_where_nothing_is_relevant() -> None:
    third = numbered(19, "The Brockel M3 was delivered in May.", title="Orders")
    assert quoted(JAMMED, MIXER, HELP, third) == []


@pytest.mark.parametrize(("plant", "room"), [("boilers", "118"), ("pumps", "214")])
def test_the_name_of_another_thing_in_the_sentence_leads_nowhere(plant: str, room: str) -> None:
    duties = numbered(
        20,
        "The boilers belong to Graham Pruett, the pumps to Yusuf Dane. Keys of the plant hang there.",
        title="Plant",
    )
    staff = numbered(
        21, "Graham Pruett: room 118. Yusuf Dane: room 214. Sally Marsh: room 301.", title="Staff"
    )
    found = quoted(f"Which room has the man with the keys of the {plant} in our plant?", duties, staff)
    assert [text.split()[-1] for number, text in found if number == 21] == [f"{room}."]


def test_a_text_whose_language_is_unknown_names_nothing_in_one_word() -> None:
    assert quoted("Mixer colour?", numbered(22, "Mixer in Birke.")) == [(22, "Mixer in Birke.")]
