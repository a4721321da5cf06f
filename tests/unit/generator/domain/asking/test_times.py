"""Questions about a time are answered by what was so then, in English and German."""

from datetime import date
from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.asking.times import told
from groundline_generator.domain.quoting.candidates import Question
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

TODAY = date(2026, 11, 30)

answers = partial(extract, min_relevance=0.4, max_sentences=3, today=TODAY)

FERRY = numbered(
    1,
    "The ferry to Norrholm takes cars and bicycles. Until the end of 2014 the crossing cost £8. "
    "From 2015 to March 2020 it was £11. Since 1 April 2020 it has been £14. From 2031 it will be £20.",
    title="Ferry",
)
ARCHIVE = numbered(
    2,
    "Das Archiv lag bis 2011 im Keller, von 2012 bis 2018 im Turm und seit Mai 2019 im Neubau. "
    "Leiter war bis 2016 Jonas Brandt, danach Ute Lang.",
    title="Archiv",
)
LIMIT = numbered(
    3,
    "Attachments have been limited since 2022. Since 1 May 2024 the limit of attachments is 25 MB. "
    "Before that, it was 10 MB.",
    title="Attachments",
)


@pytest.mark.parametrize(
    ("query", "said", "unsaid"),
    [
        ("What did the crossing cost in 2012?", "£8", "£14"),
        ("What did the crossing cost in 2017?", "£11", "£8"),
        ("What did the crossing cost on 3 February 2020?", "£11", "£14"),
        ("What did the crossing cost in summer 2023?", "£14", "£11"),
        ("Which cost of the crossing was valid in May 2012?", "£8", "£14"),
        ("What does the crossing cost now?", "£14", "£20"),
        ("What does the crossing currently cost?", "£14", "£8"),
        ("What was the limit of attachments in 2023?", "10 MB", "25 MB"),
        ("What is the limit of attachments today?", "25 MB", "10 MB"),
    ],
)
def test_a_question_about_a_time_is_answered_by_what_was_so_then(query: str, said: str, unsaid: str) -> None:
    quoted = " ".join(extract.text for extract in answers(query, [FERRY, ARCHIVE, LIMIT]).extracts)
    assert said in quoted
    assert unsaid not in quoted


def test_words_of_validity_count_where_they_are_said() -> None:
    course = numbered(1, "In 2019 the course took 40 people. In 2019 312 people applied.", title="Course")
    assert "312" in answers("How many people applied in 2019?", [course]).extracts[0].text


@pytest.mark.parametrize(
    ("query", "said"), [("Wo lag das Archiv im Jahr 2015?", "Turm"), ("Wer war 2021 der Leiter?", "Ute Lang")]
)
def test_one_sentence_tells_of_several_times(query: str, said: str) -> None:
    assert said in " ".join(extract.text for extract in answers(query, [FERRY, ARCHIVE]).extracts)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Welche Ordnung des Archivs galt 1998?", "Seit 2012 gilt die neue Ordnung des Archivs."),
        (
            "Which order of the archive was valid in 2031?",
            "Until 2030 the old order of the archive is valid.",
        ),
        (
            "Is the old order of the archive still valid?",
            "Until 2020 the old order of the archive was valid.",
        ),
    ],
)
def test_what_was_so_at_another_time_answers_nothing(query: str, text: str) -> None:
    assert answers(query, [numbered(4, text, title="Archiv")]).extracts == ()


def test_a_number_behind_a_name_is_no_year() -> None:
    scanner = numbered(5, "Since 2015 the Kestrel 2000 has a pairing button.", title="Scanner")
    assert "button" in answers("Which button does the Kestrel 2000 have?", [scanner]).extracts[0].text


def test_a_year_in_which_something_changed_decides_nothing() -> None:
    pool = numbered(6, "Until August 2023 a ticket for the pool cost £5.", title="Pool")
    assert "£5" in answers("What did a ticket for the pool cost in 2023?", [pool]).extracts[0].text


BERTH = numbered(
    7,
    "Yachts pay for the berth by the night. From 2020 to 2022 they paid £18. During 2023 it was £21.50, "
    "since 2024 it has been £24. The quay was dredged before the pier was rebuilt in 2016.",
    title="Berths",
)
RULES = numbered(
    8,
    "From 2015 staff had 25 days of leave. The agreement of 2021 raised this to 28 days with effect from 1 "
    "January 2022. In 1950 the head office moved to Kiel. In 1990 it moved to Bonn.",
    title="Rules of staff",
)
TERM = numbered(
    9,
    "Der Vertrag läuft vom 1. Juli 2023 bis Mai 2028. Die Miete beträgt in den ersten zwei Jahren 310 Euro, "
    "danach 345 Euro.",
    title="Vertrag",
)


@pytest.mark.parametrize(
    ("query", "passage", "said", "unsaid"),
    [
        ("What did yachts pay the year before it went up to £21.50?", BERTH, "£18", "£21"),
        ("What did yachts pay for the berth before it was raised to £24?", BERTH, "£21.50", "£18"),
        ("How many days of leave do staff have now?", RULES, "28 days", "Bonn"),
        ("Where is the head office now?", RULES, "Bonn", "Kiel"),
        ("Where was the head office in the year 1970?", RULES, "Kiel", "Bonn"),
        ("Wie hoch ist derzeit die Miete?", TERM, "345 Euro", "Keller"),
    ],
)
def test_what_goes_on_from_a_statement_is_of_its_subject(
    query: str, passage: pb.NumberedPassage, said: str, unsaid: str
) -> None:
    quoted = " ".join(extract.text for extract in answers(query, [passage, ARCHIVE]).extracts)
    assert said in quoted
    assert unsaid not in quoted


@pytest.mark.parametrize(
    "query",
    [
        "What did yachts pay before it went up to £99?",
        "What did yachts pay before it went up to many pounds?",
        "Which current does the berth need?",
        "How long was the berth free today?",
    ],
)
def test_a_question_that_names_no_known_time_asks_about_none(query: str) -> None:
    assert Question(query, "english", TODAY, [BERTH.text]).time is None


def test_the_current_of_a_device_is_no_time() -> None:
    assert Question("What is the current of the motor?", "english", TODAY).time is None
    assert Question("What is the current price?", "english", TODAY).time is not None


@pytest.mark.parametrize(
    ("sentence", "starts", "ends"),
    [
        ("The tank holds 1800 litres.", [], []),
        ("It ran until 31 February 2020.", [], []),
        ("Der Preis stieg am 3. Mai 2022.", ["2022-05-03"], ["9999-12-31"]),
        ("In May 2022 the club moved from Hull to York.", ["0001-01-01"], ["9999-12-31"]),
        ("2022 zog er von der Au in den Turm um.", ["0001-01-01"], ["9999-12-31"]),
        ("2022 stieg der Preis von 5 auf 6 Euro.", ["0001-01-01"], ["9999-12-31"]),
        ("Von 2019 bis 2022 stieg der Preis von 5 auf 6 Euro.", ["2019-01-01"], ["9999-12-31"]),
        ("£2 in 1989, between 1990 and 1994 £3.", ["1989-01-01", "1990-01-01"], ["1989-12-31", "1994-12-31"]),
        ("2015-06-01 to 2015-07, and the 1920s.", ["2015-06-01", "1920-01-01"], ["2015-07-31", "1929-12-31"]),
        ("Das Becken war im Winter leer, ab Herbst 2021 voll.", ["2021-09-01"], ["9999-12-31"]),
        ("It used to open at seven.", ["0001-01-01"], ["2026-11-29"]),
        ("Holm till 2012, then Lund till 2020.", ["0001-01-01", "2012-12-31"], ["2012-12-31", "2020-12-31"]),
        ("It was £7 until the new wing opened in 2022.", ["0001-01-01"], ["2022-12-31"]),
        ("Bis das neue Haus 2022 öffnete, war es frei.", ["0001-01-01"], ["2022-12-31"]),
        ("Das Tor ist jetzt offen.", ["2026-11-30"], ["9999-12-31"]),
    ],
)  # fmt: skip
def test_a_sentence_tells_of_points_and_spans(sentence: str, starts: list[str], ends: list[str]) -> None:
    periods = told([sentence], TODAY)[0].periods
    assert [one.start.isoformat() for one in periods] == starts
    assert [one.end.isoformat() for one in periods] == ends
