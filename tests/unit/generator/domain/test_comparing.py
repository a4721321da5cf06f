import pytest
from groundline_generator.domain.comparing import compared


@pytest.mark.parametrize(
    "query",
    [
        "May I bring a dog or a cat?",
        "Is water or oil on the floor a danger?",
        "Which plans include backups or monitoring?",
        "More than how many people applied?",
        "How long is the break for more than nine hours of work?",
        "Wie lang ist die Pause bei mehr als 6 Stunden Arbeit?",
        "Who was the leader or the member of the council?",
        "Is the pump heavier?",
        "",
    ],
)
def test_a_question_that_compares_nothing_is_left_whole(query: str) -> None:
    assert compared(query) is None


@pytest.mark.parametrize(
    ("query", "sides"),
    [
        ("Is the X2 or the X5 heavier?", ("Is the X2 heavier?", "Is the X5 heavier?")),
        (
            "Which pump costs more, the one of the X2 or of the X5?",
            ("Which pump costs more, the one of the X2?", "Which pump costs more, the one of the X5?"),
        ),
        ("Can the X2 go deeper than the X5?", ("Can the X2 go deeper?", "Can the X5 go deeper?")),
        (
            "How long does the filter of the X2 last compared with the X5?",
            ("How long does the filter of the X2 last?", "How long does the filter of the X5 last?"),
        ),
        (
            "Is a wool blanket more expensive than a silk scarf?",
            ("Is a wool blanket more expensive?", "Is a silk scarf more expensive?"),
        ),
        (
            "How much heavier is the 160 than the 110 in the Gannet series?",
            (
                "How much heavier is the 160 in the Gannet series?",
                "How much heavier is the 110 in the Gannet series?",
            ),
        ),
        ("Fährt die X2 oder die X5 schneller?", ("Fährt die X2 schneller?", "Fährt die X5 schneller?")),
        ("What is the difference between sick and annual leave?", ("sick leave", "annual leave")),
        ("What differs? Compare Kiel and the old town.", ("Kiel", "old town")),
        ("Was the bridge older than the tower?", ("Was the bridge older?", "Was the tower older?")),
        ("Ist die X2 oder die X5 schwerer?", ("Ist die X2 schwerer?", "Ist die X5 schwerer?")),
        ("Was ist teurer, Miete oder Leasing?", ("Was ist teurer, Miete?", "Was ist teurer, Leasing?")),
        ("Hat die X2 mehr Gewicht als die X5?", ("Hat die X2 mehr Gewicht?", "Hat die X5 mehr Gewicht?")),
    ],
)
def test_a_comparison_comes_apart_into_a_question_on_each_thing(query: str, sides: tuple[str, str]) -> None:
    assert compared(query) == sides
