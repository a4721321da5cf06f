"""Rules that find what an answer says otherwise than its passages."""

from collections.abc import Mapping, Sequence

import pytest
from groundline.v1 import chat_pb2, error_pb2
from groundline_generator.domain.checking.citations import CitedAnswer
from groundline_generator.domain.checking.validation import validate
from groundline_tests.generator.messages import numbered

NUMBER = error_pb2.NUMBER_NOT_SUPPORTED
NAME = error_pb2.NAME_NOT_SUPPORTED
DENIED = error_pb2.CONTRADICTED_SENTENCE

DN_4 = (
    "# DN-4\n\nTighten the screws of the DN-4 with a torque of 1.8 Nm. Do not close the outlet valve during "
    "operation. Clara Voss tested it in Kiel in 2019. The pump delivers 1,200 litres in 3 hours."
)
DN_6 = "# DN-6\n\nTighten the screws of the DN-6 with a torque of 2.8 Nm. It weighs twelve kilograms."
GERMAN = (
    "Die Schrauben des DN-4 werden mit 1,8 Nm angezogen. Schließen Sie das Auslassventil im Betrieb nicht. "
    "Geprüft wurde das Gerät in Kiel. Die Pumpe fördert 1.200 Liter in drei Stunden."
)


def reasons(answer: str, *texts: str) -> Sequence[int]:
    passages = {number: numbered(number, text) for number, text in enumerate(texts, start=1)}
    marked = CitedAnswer(f"{answer} {''.join(f'[{number}]' for number in passages)}", passages)
    validation = validate("DN-4?", marked, chat_pb2.FINISH_REASON_STOP)
    found = [issue.reason for issue in validation.issues if issue.reason != error_pb2.LOW_RELEVANCE]
    assert validation.grounded == (not found)
    assert validation.supported_share == (0 if found else 1)
    return found


CLUB = (
    "Robert E. Barnes sang a four-note song at ten-minute intervals in the Royal New England Bank Hall. "
    "Medical knowledge had stagnated in the Middle Ages. The best account of that knowledge came from the "
    "medical faculty in Paris, where it had stagnated least. Most guests came from Salem, United States."
)
OTHERWISE = {
    DN_4: [
        ("Tighten the screws of the DN-4 with a torque of 3.8 Nm.", NUMBER),
        ("Tighten the screws of the DN-4 with a torque of 1.8 kNm.", NUMBER),
        ("Tighten the screws of the DN-4 with a torque of 2.8 Nm.", NUMBER),
        ("Tighten the screws of the DN-5 with a torque of 1.8 Nm.", NAME),
        ("Close the outlet valve during operation.", DENIED),
        ("Clara Voss did not test it in Kiel in 2019.", DENIED),
        ("Clara Voss tested it in Hamburg in 2019.", NAME),
        ("Clara Vogel tested it in Kiel in 2019.", NAME),
        ("Clara Voss tested it in Kiel in 2018.", NUMBER),
        ("The pump delivers 1,200 litres in 3 days.", NUMBER),
        ("The pump delivers 1,200 litres in five hours.", NUMBER),
    ],
    GERMAN: [
        ("Die Schrauben des DN-4 werden mit 2,8 Nm angezogen.", NUMBER),
        ("Schließen Sie das Auslassventil im Betrieb.", DENIED),
        ("Geprüft wurde das Gerät in Hamburg.", NAME),
        ("Die Pumpe fördert 1.200 Liter in vier Stunden.", NUMBER),
    ],
    CLUB: [
        # The sentence beside it shares its words, and still does not support another name.
        ("Medical knowledge had stagnated in the Paris.", NAME),
        ("Few guests came from Salem, United States.", DENIED),
        ("Most guests came from Salem, UK.", NAME),
        ("Robert E. Barnes sang a two-note song at ten-minute intervals.", NUMBER),
        ("Robert E. Barnes sang a four-note song at six-minute intervals in the hall.", NUMBER),
        ("Robert E. Barnes sang a four-note song at ten-minute intervals in the Salem.", NAME),
    ],
}
BORNE_OUT = {
    DN_4: [
        "The DN-4's screws are tightened with a torque of 1.8 Nm.",
        "Tighten the DN-4's screws with 1.8 newton metres.",
        "Never close the outlet valve during operation.",
        "In 2019 it was tested in Kiel by Clara Voss.",
        "The pump delivers 1200 litres in three hours.",
    ],
    GERMAN: [
        "Mit 1,8 Nm werden die Schrauben des DN-4 angezogen.",
        "Das Auslassventil im Betrieb nicht schließen.",
        "Die Pumpe fördert 1200 Liter in 3 Stunden.",
    ],
    CLUB: [
        "Most guests came from Salem, US.",
        "Barnes sang a four-note song at ten-minute intervals in the Royal New England Bank Hall.",
    ],
}


def each[Case](cases: Mapping[str, Sequence[Case]]) -> Sequence[tuple[str, Case]]:
    return [(text, case) for text, of_text in cases.items() for case in of_text]


@pytest.mark.parametrize(("text", "case"), each(OTHERWISE))
def test_what_stands_otherwise_in_the_passage_is_named(text: str, case: tuple[str, int]) -> None:
    answer, reason = case
    assert reasons(answer, text, "Nothing else is known of its screws.") == [reason]


@pytest.mark.parametrize(("text", "answer"), each(BORNE_OUT))
def test_a_paraphrase_is_grounded(text: str, answer: str) -> None:
    assert reasons(answer, text) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Das Drehbuch wurde von Clara Voss geschrieben.", "Das Skript wurde von Clara Voss geschrieben."),
        (
            "Die Einwohner des Landkreises arbeiten überwiegend in Fabriken.",
            "In Fabriken arbeitet die Bevölkerung des Bezirks meistens.",
        ),
        ("Es gibt harmonische Analysen in Kiel.", "Harmonieanalysen gibt es in Kiel."),
        ("The marriage took place in the district.", "The wedding took place in the county."),
    ],
)
def test_words_that_mean_the_same_bear_a_sentence_out(answer: str, said: str) -> None:
    assert reasons(answer, said) == []


@pytest.mark.parametrize(
    ("answer", "said", "reason"),
    [
        ("Das Bild wurde von Clara Voss geschrieben.", "Das Skript wurde von Clara Voss geschrieben.", NAME),
        ("Das Drehbuch wurde 2019 geschrieben.", "Das Skript wurde 2018 geschrieben.", NUMBER),
        ("Das Drehbuch wurde nie in Kiel verfilmt.", "Das Skript wurde in Kiel verfilmt.", DENIED),
    ],
)
def test_words_that_mean_the_same_bear_out_nothing_else(answer: str, said: str, reason: int) -> None:
    assert reasons(answer, said) == [reason]


def test_another_devices_number_is_not_this_ones() -> None:
    assert reasons("Tighten the screws of the DN-4 with a torque of 2.8 Nm.", DN_4, DN_6) == [NUMBER]
    assert reasons("Tighten the screws of the DN-6 with a torque of 2.8 Nm.", DN_4, DN_6) == []


def test_a_year_within_a_range_is_read_out_of_it() -> None:
    passage = "The school took its new name in the academic year 2018–19."
    assert reasons("The school took its new name in the academic year 2018–2019.", passage) == []
    assert reasons("The school took its new name in the academic year 2020–2021.", passage) == [NUMBER]
