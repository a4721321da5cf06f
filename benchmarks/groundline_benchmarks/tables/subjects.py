"""Subjects of tables: their columns, how their rows are drawn, and questions to them, in two languages.

In a question `{e}` is a row's first cell, `{of}` the words that name the table, `{n}` a number.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, Literal

type Language = Literal["en", "de"]
type Cell = str | Decimal | date | None
type Kind = Literal[
    "lookup", "below", "above", "sum", "average", "by", "highest", "lowest", "count", "refused"
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its names, and the unit behind its numbers, if it is not in the names."""

    names: Mapping[Language, str]
    unit: str = ""
    decimals: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of a kind about a column, in both languages; of "by" `group` is the column of the groups.
    `scale`: what its number is multiplied with to be in the column's unit."""

    kind: Kind
    column: int
    texts: Mapping[Language, str]
    group: int = 0
    scale: Decimal = Decimal(1)


@dataclass(frozen=True, slots=True)
class Subject:
    title: Mapping[Language, str]
    columns: Sequence[Column]
    row: Callable[[random.Random, int], Sequence[Cell]]
    asks: Sequence[Ask]


def _both(en: str, de: str) -> dict[Language, str]:
    return {"en": en, "de": de}


def _tenths(chance: random.Random, least: int, most: int) -> Decimal:
    return Decimal(chance.randint(least * 10, most * 10)) / 10


def _pump(chance: random.Random, number: int) -> Sequence[Cell]:
    return (
        f"{chance.choice(('DN', 'KX', 'PW'))}-{number}",
        _tenths(chance, 1, 60),
        Decimal(chance.randint(50, 2000)),
        chance.choice(("A", "B", "C")) + "-Serie",
        date(2015, 1, 1) + timedelta(days=chance.randint(0, 3500)),
    )


def _city(chance: random.Random, number: int) -> Sequence[Cell]:
    name = chance.choice(("Nord", "Süd", "Alt", "Neu", "Berg", "Stein")) + chance.choice(
        ("hausen", "furt", "tal")
    )
    land = chance.choice(("Avalon", "Borduria", "Syldavia"))
    return f"{name} {number}", land, Decimal(chance.randint(900, 3_000_000)), _tenths(chance, 2, 900)


def _person(chance: random.Random, number: int) -> Sequence[Cell]:
    name = (
        chance.choice(("Ada", "Ben", "Cleo", "Dora", "Emil")) + " " + chance.choice(("Moor", "Vega", "Lind"))
    )
    team = chance.choice(("Einkauf", "Labor", "Vertrieb"))
    return f"{name} {number}", team, Decimal(chance.randint(30_000, 99_000)), Decimal(chance.randint(19, 65))


def _part(chance: random.Random, number: int) -> Sequence[Cell]:
    return (
        f"P{number}-{chance.choice('RST')}",
        chance.choice(("Halle 1", "Halle 2", "Keller")),
        Decimal(chance.randint(0, 5000)),
        _tenths(chance, 1, 900),
    )


def _river(chance: random.Random, number: int) -> Sequence[Cell]:
    name = chance.choice(("Alma", "Brenta", "Calder", "Dosse"))
    return (
        f"{name} {number}",
        chance.choice(("Ost", "West")),
        _tenths(chance, 10, 900),
        _tenths(chance, 1, 90),
    )


_MODEL: Final = Column(_both("Model", "Modell"))

SUBJECTS: Final[Sequence[Subject]] = (
    Subject(
        _both("pumps", "Pumpen"),
        (
            _MODEL,
            Column(_both("Weight (kg)", "Gewicht (kg)"), decimals=1),
            Column(_both("Price", "Preis"), "EUR"),
            Column(_both("Series", "Baureihe")),
            Column(_both("Released", "Erscheinungsdatum")),
        ),
        _pump,
        (
            Ask("lookup", 1, _both("How heavy is the {e}?", "Wie schwer ist die {e}?")),
            Ask("lookup", 2, _both("What does the {e} cost?", "Was kostet die {e}?")),
            Ask(
                "below",
                2,
                _both(
                    "Which models of {of} cost less than {n} EUR?",
                    "Welche Modelle von {of} kosten weniger als {n} EUR?",
                ),
            ),
            Ask(
                "above",
                1,
                _both("Which {of} are heavier than {n} g?", "Welche {of} wiegen mehr als {n} g?"),
                scale=Decimal("0.001"),
            ),
            Ask(
                "average",
                2,
                _both("What is the average price of {of}?", "Was ist der durchschnittliche Preis der {of}?"),
            ),
            Ask(
                "highest",
                1,
                _both("Which is the heaviest model of {of}?", "Welches ist das schwerste Modell von {of}?"),
            ),
            Ask("refused", 0, _both("What colour is the {e}?", "Welche Farbe hat die {e}?")),
            Ask(
                "refused",
                0,
                _both(
                    "Which models of {of} do not cost {n} EUR?",
                    "Welche Modelle von {of} kosten nicht {n} EUR?",
                ),
            ),
            Ask("refused", 0, _both("How heavy is the ZZ-{n}?", "Wie schwer ist die ZZ-{n}?")),
        ),
    ),
    Subject(
        _both("towns", "Städte"),
        (
            Column(_both("City", "Stadt")),
            Column(_both("Country", "Land")),
            Column(_both("Population", "Einwohner")),
            Column(_both("Area (km²)", "Fläche (km²)"), decimals=1),
        ),
        _city,
        (
            Ask("lookup", 2, _both("What is the population of {e}?", "Wie viele Einwohner hat {e}?")),
            Ask("lookup", 3, _both("How large is the area of {e}?", "Wie groß ist die Fläche von {e}?")),
            Ask(
                "by",
                2,
                _both("total population of {of} by country", "Summe der Einwohner von {of} nach Land"),
                group=1,
            ),
            Ask(
                "sum",
                3,
                _both("What is the total area of {of}?", "Wie groß ist die Summe der Fläche der {of}?"),
            ),
            Ask(
                "highest",
                2,
                _both(
                    "Which city of {of} has the highest population?",
                    "Welche Stadt von {of} hat die meisten Einwohner?",
                ),
            ),
            Ask(
                "above",
                2,
                _both(
                    "Which {of} have more than {n} inhabitants?", "Welche {of} haben mehr als {n} Einwohner?"
                ),
            ),
            Ask("refused", 0, _both("Who is the mayor of {e}?", "Wer ist Bürgermeister von {e}?")),
            Ask(
                "refused",
                0,
                _both("What is the median area of {of}?", "Was ist der Median der Fläche von {of}?"),
            ),
        ),
    ),
    Subject(
        _both("staff", "Mitarbeiter"),
        (
            Column(_both("Employee", "Person")),
            Column(_both("Department", "Abteilung")),
            Column(_both("Salary", "Gehalt"), "EUR"),
            Column(_both("Age", "Alter")),
        ),
        _person,
        (
            Ask("lookup", 3, _both("How old is {e}?", "Wie alt ist {e}?")),
            Ask("lookup", 2, _both("What is the salary of {e}?", "Wie hoch ist das Gehalt von {e}?")),
            Ask("average", 3, _both("average age of {of}", "Was ist das durchschnittliche Alter der {of}?")),
            Ask(
                "by",
                2,
                _both(
                    "average salary of {of} per department", "Durchschnittliches Gehalt der {of} je Abteilung"
                ),
                group=1,
            ),
            Ask("count", 3, _both("How many {of} are older than {n}?", "Wie viele {of} sind älter als {n}?")),
            Ask("lowest", 3, _both("Who is the youngest of {of}?", "Wer ist der jüngste der {of}?")),
            Ask(
                "refused",
                0,
                _both("What is the phone number of {e}?", "Wie lautet die Telefonnummer von {e}?"),
            ),
            Ask(
                "refused",
                0,
                _both(
                    "Who of {of} earns the second highest salary?",
                    "Wer von {of} hat das zweithöchste Gehalt?",
                ),
            ),
        ),
    ),
    Subject(
        _both("stock", "Lager"),
        (
            Column(_both("Part", "Teil")),
            Column(_both("Warehouse", "Lagerort")),
            Column(_both("Quantity", "Menge")),
            Column(_both("Weight [g]", "Gewicht [g]"), decimals=1),
        ),
        _part,
        (
            Ask("lookup", 2, _both("What is the quantity of {e}?", "Welche Menge hat {e}?")),
            Ask("lookup", 3, _both("How much does {e} weigh?", "Wie viel wiegt {e}?")),
            Ask(
                "by",
                2,
                _both("sum of quantity by warehouse in {of}", "Summe der Menge je Lagerort in {of}"),
                group=1,
            ),
            Ask("sum", 2, _both("total quantity in {of}", "Menge insgesamt in {of}")),
            Ask(
                "below",
                3,
                _both(
                    "Which part in {of} weighs less than {n} kg?",
                    "Welche Teile in {of} wiegen weniger als {n} kg?",
                ),
                scale=Decimal(1000),
            ),
            Ask(
                "lowest",
                3,
                _both("Which is the lightest part in {of}?", "Welches Teil in {of} ist am leichtesten?"),
            ),
            Ask("refused", 0, _both("What does {e} cost?", "Was kostet {e}?")),
            Ask(
                "refused",
                0,
                _both(
                    "Which share of {of} is in the cellar?", "Welcher Anteil von {of} ist im Obergeschoss?"
                ),
            ),
        ),
    ),
    Subject(
        _both("rivers", "Flüsse"),
        (
            Column(_both("River", "Fluss")),
            Column(_both("Basin", "Becken")),
            Column(_both("Length (km)", "Länge (km)"), decimals=1),
            Column(_both("Depth", "Tiefe"), "m", decimals=1),
        ),
        _river,
        (
            Ask("lookup", 2, _both("How long is the {e}?", "Wie lang ist die {e}?")),
            Ask("lookup", 3, _both("How deep is the {e}?", "Wie tief ist die {e}?")),
            Ask(
                "above",
                2,
                _both("Which {of} are longer than {n} m?", "Welche {of} sind länger als {n} m?"),
                scale=Decimal("0.001"),
            ),
            Ask(
                "highest", 3, _both("Which is the deepest of the {of}?", "Welcher der {of} ist am tiefsten?")
            ),
            Ask("average", 2, _both("average length of the {of}", "durchschnittliche Länge der {of}")),
            Ask(
                "by",
                2,
                _both("total length of {of} by basin", "Summe der Länge der {of} nach Becken"),
                group=1,
            ),
            Ask("refused", 0, _both("How wide is the {e}?", "Wie breit ist die {e}?")),
            Ask("refused", 0, _both("Where does the {e} spring?", "Wo entspringt die {e}?")),
        ),
    ),
)
