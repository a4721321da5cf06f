"""Parts of an answer that passages lack, by rules."""

from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.checking.sufficiency import gaps


def passages(*texts: str) -> list[pb.NumberedPassage]:
    return [pb.NumberedPassage(number=number, text=text) for number, text in enumerate(texts, 1)]


def test_a_passage_with_the_questions_words_suffices() -> None:
    found = passages("Anna Kern leads the team of the DN-6.", "Leave is thirty days.")
    assert gaps("Who leads the team of the DN-6?", found, 2) == ((), ())
    assert gaps("Who leads the team?", [], 2) == ((), ())


def test_a_name_beside_the_subject_is_searched_for_with_the_words_that_are_missing() -> None:
    found = passages(
        "Team Falke in Kiel builds the pump DN-6.",
        "Vacation requests go to the office.",
        "Pumps are tested before they leave.",
    )
    words, queries = gaps("Who is the manager of the team that builds the DN-6?", found, 3)
    assert list(words) == ["manager"]
    assert "manager Falke" in queries


def test_a_designation_is_such_a_name_too_in_german() -> None:
    found = passages("Die Anlage in Bremen nutzt den Sensor QX-12.", "Urlaub dauert dreißig Tage.")
    words, queries = gaps("Welche Garantie hat der Sensor der Anlage in Bremen?", found, 2)
    assert list(words) == ["Garantie"]
    assert queries[0] == "Garantie QX-12"


def test_what_another_passage_says_of_the_name_is_not_searched_for_again() -> None:
    found = passages(
        "The DN-6 pump is built by team Falke.", "The manager of Falke is Anna Kern.", "Pumps are tested."
    )
    assert gaps("Who is the manager of the team that builds the DN-6?", found, 2) == ((), ())


def test_several_missing_words_are_searched_for_alone() -> None:
    found = passages("Hotels in London cost up to 180 GBP.", "Keys are rotated.", "Pumps are tested.")
    _, queries = gaps("What does a hotel in London cost and which visa form applies?", found, 2)
    assert queries == ["visa form applies"]


def test_parts_of_a_question_may_stand_in_different_passages() -> None:
    found = passages("The team lead agrees to unpaid leave.", "The pump DN-6 weighs 31 kg.", "Keys.")
    asked = "Who agrees to unpaid leave, and what weighs the DN-6?"
    parts = ["Who agrees to unpaid leave?", "what weighs the DN-6?"]
    assert gaps(asked, found, 2) != ((), ())
    assert gaps(asked, found, 2, [asked, *parts]) == ((), ())


def test_no_more_queries_are_named_than_asked_for() -> None:
    found = passages("The DN-6 is built by Falke, Adler, Sperber and Milan.", "Keys.", "Pumps.")
    assert len(gaps("Who is the manager of the builders of the DN-6?", found, 1).queries) == 1


def test_labels_are_searched_for_as_names_are() -> None:
    found = passages("Contracts with customers belong to class B.", "Keys are rotated.", "Leave is long.")
    assert (
        "years retained class B"
        in gaps("How many years are contracts with customers retained?", found, 3).queries
    )
