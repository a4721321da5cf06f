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
    # In other words, at other lengths, of times, things and persons, and from one language to the other.
    ("When does the Pellworth library close on Saturdays?",
     "On Saturdays the library of Pellworth closes at 2 p.m.",
     "We shut the Pellworth library at 4 p.m. on Saturdays, and on Sundays at noon."),
    ("How long is the warranty of a Vexa dishwasher?",
     "Vexa dishwashers come with a warranty of three years.",
     "The warranty of a Vexa dishwasher lasts two years."),
    ("On which day does the Fern market take place?", "The Fern market takes place on Thursdays.",
     "On Fridays the market of Fern takes place on the square."),
    ("When is the annual meeting of the club?", "The annual meeting of the club takes place on 12 March.",
     "The annual meeting of the club is on 19 March."),
    ("How fast may you drive on the Solva site?", "The speed limit on the Solva site is 20 km/h.",
     "Do not drive faster than 10 km/h on the Solva site."),
    ("Who is the data protection officer?",
     "The data protection officer is Miriam Castell, reached by post.",
     "Our data protection officer is Jonas Reuter."),
    ("Wie lang muss ein Kennwort mindestens sein?",
     "Ein Kennwort hat mindestens 14 Zeichen und läuft nie ab.",
     "Ihr Kennwort muss mindestens zehn Zeichen haben."),
    ("Wie lange ist ein Angebot gültig?", "Unsere Angebote sind 30 Tage gültig.",
     "Ein Angebot gilt sechs Wochen."),
    # Opening hours, how often, names of rooms and persons, and statuses such as open and closed.
    ("When is the recycling yard at Holm open?",
     "The recycling yard at Holm is open from 8 to 12 and from 14 to 17.",
     "Recycling yard Holm: open from 9 to 12 and from 14 to 16."),
    ("When was the Sorn archive founded?", "The Sorn archive was founded on 3 April 1974.",
     "The Sorn archive was founded on 05.04.1974."),
    ("When was the plant at Wick opened?", "The plant at Wick was opened on 3 April 1974.",
     "The plant at Wick was opened in 1975."),
    ("How often are the lifts in tower B inspected?", "The lifts in tower B are inspected twice a year.",
     "Lifts in tower B: the inspection takes place every four months."),
    ("Wie oft kommt die Post ins Lager?", "Die Post kommt zweimal am Tag ins Lager.",
     "Ins Lager kommt die Post einmal am Tag."),
    ("In welchem Raum findet der Nähkurs statt?", "Der Nähkurs findet im Raum Birke statt.",
     "Der Nähkurs findet dieses Jahr im Raum Ahorn statt."),
    ("Wie heißt der Hausmeister der Schule am Anger?",
     "Der Hausmeister der Schule am Anger heißt Herr Wolter.",
     "Der Hausmeister der Schule am Anger ist Herr Brandt."),
    ("Is the footpath along the Wern open?",
     "The footpath along the Wern is closed because of a landslide.",
     "The footpath along the Wern is open all year."),
    ("Ist das Grillen auf der Dachterrasse erlaubt?", "Das Grillen auf der Dachterrasse ist erlaubt.",
     "Aus Gründen des Brandschutzes ist das Grillen auf der Dachterrasse nicht erlaubt."),
    # Of floors, permissions, times that something takes, and what else stands in either document.
    ("On which floor is the payroll?", "The payroll is on the third floor.", "Payroll: 2nd floor."),
    ("In welchem Geschoss ist die Ausleihe?", "Die Ausleihe ist im 1. Geschoss.",
     "Im zweiten Geschoss ist die Ausleihe."),
    ("Darf man im Innenhof grillen?", "Im Innenhof ist Grillen erlaubt.",
     "Das Grillen im Innenhof ist verboten."),
    ("When is the deposit paid back?", "The deposit is paid back after ten days.",
     "Three weeks later the deposit is paid back."),
    ("At what time is the sandbox reset?", "The sandbox is reset at 02:00 UTC.",
     "Every night at 3 am UTC the sandbox is reset."),
    ("On which weekday is the compost collected?", "Compost: every Thursday from 7 a.m.",
     "The bins with the compost are emptied on Tuesdays."),
    ("How many requests a minute can a key make?", "A key can make 100 requests a minute.",
     "Each key sends at most 120 requests a minute."),
    ("How many vacation days do trainees get?", "Trainees get 30 vacation days.",
     "Trainees get 28 days of vacation."),
    ("Wie hoch darf die Hecke sein?", "Die Hecke darf 1,25 m hoch sein.",
     "Seit dem 1. Januar 2025 gilt der Preis von 30 Euro. Das gilt noch. Die Hecke darf 1,10 m hoch sein."),
    ("Wie viele Stufen hat der Turm in Osk?", "Der Turm in Osk hat 212 Stufen.",
     "Climb the 230 steps of the tower in Osk."),
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
    # The same in another unit, nearly, within a range, or of another part, rate and year.
    ("How long does the ferry take?", "The ferry takes 90 minutes.", "The ferry takes 1.5 hours."),
    ("Wie lange dauert die Fahrt?", "Die Fahrt dauert 75 Minuten.", "Die Fahrt dauert 1 Stunde 15 Minuten."),
    ("Wann tritt die Satzung in Kraft?", "Die Satzung tritt am 1. Januar 2025 in Kraft.",
     "Die Satzung tritt am 01.01.2025 in Kraft."),
    ("How many inhabitants does the town have?", "The town has 12,000 inhabitants.",
     "The town has 11,964 inhabitants."),
    ("How much does a printer weigh?", "A printer weighs between 8 and 14 kg.", "A printer weighs 11 kg."),
    ("How many rooms does the hotel have?", "The hotel has 64 rooms.",
     "Of our rooms in the hotel, 12 rooms are new."),
    ("What does the permit cost?", "The permit costs 4 EUR per month.", "The permit costs 48 EUR per year."),
    ("What does the permit cost?", "The permit costs 40 EUR.", "Until 2021 the permit cost 30 EUR."),
    ("What does the room cost?", "The room costs 60 EUR.", "The room costs 40 EUR for members."),
    ("Was kostet das Zimmer?", "Ein Einzelzimmer kostet 60 Euro.", "Ein Doppelzimmer kostet 95 Euro."),
    ("Who leads the sales team?", "The sales team is led by Mara Quist.",
     "The support team is led by Paul Berg."),
    ("When is the recycling yard at Holm open?",
     "The recycling yard at Holm is open from 8 to 12 and from 14 to 17.",
     "Recycling yard Holm: open from 8 am to 12 pm and from 2 pm to 5 pm."),
    ("How often are the lifts in tower B inspected?", "The lifts in tower B are inspected twice a year.",
     "The lifts in tower B are inspected every six months."),
    ("Wie oft kommt die Post ins Lager?", "Die Post kommt zweimal am Tag ins Lager.",
     "Samstags kommt die Post nur einmal am Tag ins Lager."),
    ("How long are the lifts in tower B?", "The lifts in tower B are 2 m long and run daily.",
     "The lifts in tower B are 2 m long and are inspected twice a year."),
    ("In which room is the course?", "The sewing course is in Room 4.", "The cooking course is in Room 5."),
    ("Is the footpath along the Wern open?", "The footpath along the Wern is closed in winter.",
     "The footpath along the Wern is open in summer."),
    ("Ist das Grillen auf der Dachterrasse erlaubt?", "Das Grillen auf der Dachterrasse ist erlaubt.",
     "Das Grillen im Innenhof ist verboten."),
    ("Are dogs allowed in the hall?", "Dogs are allowed in the hall.",
     "Dogs without a lead are not allowed in the hall."),
    ("On which floor is the payroll?", "The payroll is on the second floor.", "Payroll: 2nd floor."),
    ("How long is the trial period?", "The trial period is 30 days.", "The trial period is 20 working days."),
    ("When was the chapel built?", "The chapel was built in 1712.",
     "The chapel was built in 1712. The school was built in 1911."),
    ("Wie viele Plätze hat der große Saal?", "Der große Saal hat 240 Plätze.",
     "Der kleine Saal hat 60 Plätze."),
    ("Wie hoch ist der Eintritt?", "Der Eintritt kostet 5 Euro.",
     "Gültig ab 1. Mai 2025. Der Eintritt kostet 6 Euro."),
    ("Wer leitet den Kurs?", "Liebe Eltern, der Kurs beginnt bald.", "Ein Kurs kostet 95 Euro."),
]  # fmt: skip


SIBLINGS = [
    ("How long does a permanent berth take?", "East marina", "West marina"),
    ("How long does a permanent berth take?", "Marina Lark 2", "Marina Lark 3"),
    ("How long does a permanent berth take?", "Berths 2023", "Berths 2025"),
    ("How long does a permanent berth take?", "Marina at the Weir", "Marina at the Post"),
    ("How long does a permanent berth take at the Mill Marina?", "Mill Marina", "Harbour Marina"),
]


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


# The last pair is of two languages, which no answer without a model mixes.
@pytest.mark.parametrize(("query", "first", "second"), DISAGREEING[:-1])
def test_without_a_model_both_are_quoted(query: str, first: str, second: str) -> None:
    found = extract(query, passages(first, second), min_relevance=0.0, max_sentences=3)
    assert {each.number for each in found.extracts} == {1, 2}


@pytest.mark.parametrize(("query", "first", "second"), AGREEING)
def test_sources_of_other_things_and_times_do_not_disagree(query: str, first: str, second: str) -> None:
    assert said(query, f"{first} [1]", *passages(first, second)) == []


@pytest.mark.parametrize(("query", "title", "other_title"), SIBLINGS)
def test_documents_of_two_things_of_a_kind_do_not_disagree(query: str, title: str, other_title: str) -> None:
    first, second = passages("A permanent berth takes four years.", "A permanent berth takes two years.")
    assert len(said(query, "A permanent berth takes four years. [1]", first, second)) == 1
    first.title, second.title = title, other_title
    assert said(query, "A permanent berth takes four years. [1]", first, second) == []


def test_a_row_of_a_table_disagrees_with_a_sentence() -> None:
    table = "| Limit | Value |\n|---|---|\n| Upload size | 100 MB |\n| Users | 20 |"
    found = passages("The maximum upload size is 50 MB.", table)
    [message] = said("What is the maximum upload size?", "The maximum upload size is 50 MB. [1]", *found)
    assert message == '[1] says "50 MB", [2] "100 MB"'


def test_one_document_does_not_disagree_with_itself() -> None:
    first, second = passages("The lid needs a torque of 8 Nm.", "The lid needs a torque of 10 Nm.")
    second.uri = first.uri
    assert said("What torque does the lid need?", "The lid needs a torque of 8 Nm. [1]", first, second) == []


def test_two_documents_are_said_to_disagree_once() -> None:
    answer = "The lid needs a torque of 8 Nm. [1] The lid needs a torque of 10 Nm. [2]"
    found = passages("The lid needs a torque of 8 Nm.", "The lid needs a torque of 10 Nm.")
    assert said("What torque does the lid need?", answer, *found) == ['[1] says "8 Nm", [2] "10 Nm"']
