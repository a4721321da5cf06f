"""Sources that answer a question differently are said to, and both are quoted."""

import pytest
from groundline.v1 import chat_pb2, error_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.checking.citations import CitedAnswer
from groundline_generator.domain.checking.validation import validate
from groundline_generator.domain.quoting.extraction import extract

DISAGREEING = [
    ("What torque do the screws of the lid need?", "The screws of the lid need a torque of 8 Nm.",
     "Tighten the screws of the lid with a torque of 10 Nm."),
    ("How many vacation days do staff get?", "All staff get 30 vacation days a year.",
     "Our staff get 28 vacation days a year."),
    ("How long is the warranty of the pump?", "The warranty of the pump is 24 months.",
     "The pump has a warranty of 36 months."),
    ("When was the plant in Kiel opened?", "The plant in Kiel was opened in 1987.",
     "The plant in Kiel was opened in 1989."),
    ("How often is the filter changed?", "The filter is changed every 6 months.",
     "The filter is to be changed every 12 months."),
    ("May visitors take photos in the hall?", "Visitors may take photos in the hall.",
     "Visitors may not take photos in the hall."),
    ("How long are log files kept?", "Log files are kept for 30 days.", "Log files are kept for 90 days."),
    ("What does a parking permit cost?", "A parking permit costs 40 EUR.",
     "The parking permit costs 55 EUR."),
    ("Wie lange ist die Garantie der Pumpe?", "Die Garantie der Pumpe beträgt 24 Monate.",
     "Auf die Pumpe gilt eine Garantie von 36 Monaten."),
    ("Wie viele Urlaubstage gibt es?", "Es gibt 30 Urlaubstage im Jahr.", "Im Jahr gibt es 28 Urlaubstage."),
    ("Mit welchem Drehmoment werden die Schrauben des Deckels angezogen?",
     "Die Schrauben des Deckels werden mit 8 Nm angezogen.",
     "Die Schrauben des Deckels sind mit 10 Nm anzuziehen."),
    ("Darf das Ventil im Betrieb geschlossen werden?", "Das Ventil darf im Betrieb geschlossen werden.",
     "Das Ventil darf im Betrieb nicht geschlossen werden."),
]  # fmt: skip

AGREEING = [
    # The same in other words or units, of other things, times and conditions.
    ("What torque do the screws of the lid need?", "The screws of the lid need a torque of 8 Nm.",
     "Tighten the screws of the lid with 8 Nm."),
    ("What torque do the screws of the lid need?", "The screws of the lid need a torque of 8 Nm.",
     "The screws of the base need a torque of 12 Nm."),
    ("How heavy is the DN-4?", "The DN-4 weighs 12 kg.", "The DN-6 weighs 14 kg."),
    ("How many staff did the company have?", "In 2022 the company had 310 staff.",
     "In 2023 the company had 355 staff."),
    ("What torque do the screws need?", "The screws need a torque of 8 Nm.",
     "At 80 °C the screws need a torque of 10 Nm."),
    ("How many vacation days do staff get?", "Staff get 30 vacation days.",
     "Staff get 35 vacation days after ten years."),
    ("What does a trip to Berlin cost?", "A trip to Berlin costs 90 EUR.", "A trip to Vienna costs 140 EUR."),
    ("How long is the warranty of the pump?", "The warranty of the pump is 24 months.",
     "The pump is delivered within 3 months."),
    ("May visitors take photos in the hall?", "Visitors may take photos in the hall.",
     "Visitors may not take photos in the laboratory."),
    ("How many users does a licence cover?", "One licence covers 5 users.",
     "A licence for schools covers 30 users."),
    ("Does the warranty cover batteries?", "The warranty covers batteries.",
     "The warranty does not cover damage by batteries."),
    ("Who is the head of finance?", "The report of 2023 names Clara Voss as head of finance.",
     "The report of 2024 names Clara Voss as head of finance."),
    ("Wann schließt die Kantine?", "Die Kantine schließt um 15:00 Uhr.",
     "Freitags schließt die Kantine um 14:00 Uhr."),
    ("How fast is the conveyor?", "The conveyor runs at least at 2 m/s.", "The conveyor runs at 3 m/s."),
    ("Wie schwer ist die DN-4?", "Die DN-4 wiegt 12 kg.", "Die DN-6 wiegt 14 kg."),
    ("Wie lange ist die Garantie der Pumpe?", "Die Garantie der Pumpe beträgt 24 Monate.",
     "Die Garantie des Filters beträgt 12 Monate."),
]  # fmt: skip


def passages(*texts: str) -> list[pb.NumberedPassage]:
    return [
        pb.NumberedPassage(number=number, text=text, title=f"Note {chr(64 + number)}", uri=f"note-{number}")
        for number, text in enumerate(texts, start=1)
    ]


def said(query: str, answer: str, *found: pb.NumberedPassage) -> list[str]:
    cited = CitedAnswer(answer, {one.number: one for one in found})
    validation = validate(query, cited, chat_pb2.FINISH_REASON_STOP)
    return [each.message for each in validation.issues if each.reason == error_pb2.SOURCES_DISAGREE]


@pytest.mark.parametrize(("query", "first", "second"), DISAGREEING)
def test_two_sources_that_answer_differently_are_said_to(query: str, first: str, second: str) -> None:
    for ours, theirs in ((first, second), (second, first)):
        [message] = said(query, f"{ours} [1]", *passages(ours, theirs))
        assert message.startswith("[1] says")
        assert ", [2] " in message


@pytest.mark.parametrize(("query", "first", "second"), DISAGREEING)
def test_without_a_model_both_are_quoted(query: str, first: str, second: str) -> None:
    found = extract(query, passages(first, second), min_relevance=0.0, max_sentences=3)
    assert {each.number for each in found.extracts} == {1, 2}


@pytest.mark.parametrize(("query", "first", "second"), AGREEING)
def test_sources_of_other_things_times_and_conditions_do_not_disagree(
    query: str, first: str, second: str
) -> None:
    assert said(query, f"{first} [1]", *passages(first, second)) == []


def test_one_document_does_not_disagree_with_itself() -> None:
    first, second = passages("The lid needs a torque of 8 Nm.", "The lid needs a torque of 10 Nm.")
    second.uri = first.uri
    assert said("What torque does the lid need?", "The lid needs a torque of 8 Nm. [1]", first, second) == []


def test_two_documents_are_said_to_disagree_once() -> None:
    answer = "The lid needs a torque of 8 Nm. [1] The lid needs a torque of 10 Nm. [2]"
    found = passages("The lid needs a torque of 8 Nm.", "The lid needs a torque of 10 Nm.")
    assert said("What torque does the lid need?", answer, *found) == ['[1] says "8 Nm", [2] "10 Nm"']
