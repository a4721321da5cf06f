import pytest
from groundline_generator.domain.measures import asked_measures, measured, rank


@pytest.mark.parametrize(
    ("query", "measure", "value", "other"),
    [
        ("Which is cheaper?", "money", "It costs £74 a night.", "It sleeps 74."),
        ("Was ist teurer?", "money", "Das sind 3,20 Euro.", "Das sind 3,20 m."),
        ("Is it heavier?", "weight", "It weighs 31 kg.", "It is 31 km away."),
        ("Does it take longer?", "duration", "It takes two hours.", "It takes two people."),
        ("Fährt er schneller?", "speed", "Er fährt bis 160 km/h.", "Er fährt 160 km."),
        ("Which is older?", "date", "It was built in 1961.", "It has 1961% of them."),
        ("Ist es dort wärmer?", "temperature", "Es hat 26 Grad.", "Es hat 26 Bahnen."),
    ],
)
def test_an_adjective_asks_for_values_of_its_measure(
    query: str, measure: str, value: str, other: str
) -> None:
    assert measure in asked_measures(query)
    assert measured(value, [measure])
    assert not measured(other, [measure])


def test_a_row_may_name_the_measure_in_a_column() -> None:
    row = "Otter – price: 74; berths: 4."
    assert measured(row, ["money"], is_row=True)
    assert not measured(row, ["money"])
    assert not measured(row, ["weight"], is_row=True)


def test_a_speed_tells_more_of_what_is_faster_than_a_time() -> None:
    assert rank({"speed", "duration"}) < rank({"duration"}) < rank(())
