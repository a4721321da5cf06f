"""Plans for questions to tables, by rules.

A question is read from left to right. Every word of it must mean something in the table, or be one that asks
for nothing by itself; and what it means must fit together in one way. Else there is no plan: a wrong number
is worse than none.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from groundline.v1 import table_pb2
from groundline_language import guess_language

from groundline_tables.language import LANGUAGES, Language, language_of
from groundline_tables.matching import MAX_WORDS, Known, Words, meanings, split
from groundline_tables.measures import NoPlanError
from groundline_tables.reading import QuestionReading


class Planned(NamedTuple):
    """A plan and the place of its table among the given ones; or the reason for having none, and the words
    that mean nothing in the table in which most of them mean something."""

    plan: table_pb2.TablePlan | None = None
    place: int = 0
    refusal: table_pb2.TableRefusal.ValueType = table_pb2.TABLE_REFUSAL_UNSPECIFIED
    unknown_words: Sequence[str] = ()
    language: str = LANGUAGES[0]
    """Language that the question was read in."""
    ordinal: Literal["", "first", "last"] = ""
    """Whether the row asked for is the first or the last by its day or year, which the order of the table
    may contradict."""
    is_of_groups: bool = False
    """Whether it asks which group has most or fewest rows; groups of one row each have none."""
    is_distinct: bool = False
    """Whether it asks for different values: "how many different teams"."""
    is_only: bool = False
    """Whether it asks for the only row that there is."""
    likeliest: Sequence[int] = ()
    """Without a plan: places of the tables, those first of which more is named."""


def plan_for(question: str, tables: Sequence[Known]) -> Planned:
    """Return the plan of the one table that a question fits; of several the one of which it names more."""
    if not tables:
        return Planned(refusal=table_pb2.TABLE_REFUSAL_NO_TABLE)
    words = split(question)
    if len(words.written) > MAX_WORDS:
        return Planned(refusal=table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD, likeliest=range(len(tables)))
    guessed = guess_language(question)
    attempts: list[Planned] = []
    for name in [name for name in LANGUAGES if name == guessed] or LANGUAGES:
        tried = [_planned(words, known, language_of(name)) for known in tables]
        attempts += tried
        found = [(place, attempt) for place, attempt in enumerate(tried) if attempt.plan]
        best = max((attempt.place for _, attempt in found), default=0)
        fitting = [(place, attempt) for place, attempt in found if attempt.place == best]
        if len(fitting) == 1:
            [(place, attempt)] = fitting
            return attempt._replace(place=place)
        if fitting:
            return Planned(refusal=table_pb2.TABLE_REFUSAL_AMBIGUOUS, likeliest=_likeliest(tried))
    nearest = min(attempts, key=lambda attempt: (len(attempt.unknown_words), -attempt.place))
    return nearest._replace(place=0, likeliest=_likeliest(attempts[-len(tables) :]))


def _likeliest(attempts: Sequence[Planned]) -> Sequence[int]:
    """Return the places of tables in the order of how many words name something in them."""
    return sorted(range(len(attempts)), key=lambda place: -attempts[place].place)


def _planned(words: Words, known: Known, language: Language) -> Planned:
    """Return a plan for one table, with the number of words that name something in it as its place."""
    found, unknown = meanings(words, known, language)
    named = sum(len(each.text.split()) for each in found if each.columns or each.cells or each.is_title)
    if unknown:
        return Planned(None, named, table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD, unknown)
    reading = QuestionReading(known.table, language.fillers)
    try:
        reading.read([each for each in found if each.cells or not each.is_title])
        return Planned(
            reading.plan(),
            named,
            language=language.name,
            ordinal=reading.ordinal,
            is_of_groups=reading.is_of_groups,
            is_distinct=reading.is_distinct,
            is_only=reading.is_only,
        )
    except NoPlanError as error:
        refusal = (
            table_pb2.TABLE_REFUSAL_AMBIGUOUS
            if error.is_ambiguous
            else table_pb2.TABLE_REFUSAL_NOT_UNDERSTOOD
        )
        return Planned(None, named, refusal)
