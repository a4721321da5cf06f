"""Subjects of questions: whether passages speak of others than a question does."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from groundline.v1 import generator_service_pb2 as pb
from groundline_language.concepts import is_known_whole, related
from groundline_language.terms import content_terms

from groundline_generator.domain.signs import (
    COUNTED,
    beginning,
    designated,
    designations,
    german_names,
    names,
    quantities,
    words,
)

_TYPING_ERROR: Final = 0.8
"""Minimum similarity (difflib's ratio) of a name to one that is spelled right."""


def speak_of_others(
    query: str, language: str | None, passages: Sequence[pb.NumberedPassage], other: str | None
) -> bool:
    """Tell whether no passage has some number, designation or name of the question, a typing error aside.

    Passages in an `other` language write some names in another way: a translation will do, and one of several
    names is enough.
    """
    text = "\n".join(f"{passage.title}\n{passage.context}\n{passage.text}" for passage in passages)
    # The passages are searched only for what the question has, which takes longer than all the rest.
    numbers = [quantity for quantity in quantities(query) if quantity.shown not in COUNTED]
    held = list(quantities(text)) if numbers else []
    if any(not any(one.is_of_value(number) for one in held) for number in numbers):
        return True
    if (keys := {key for _, key in designated(query)}) and not keys <= designations(text):
        return True
    named = list(names(query, language))
    if language == "german" and not other:
        named += german_names(query.replace("-", " "))
        text = f"{text}\n{text.replace('-', ' ')}"
    begun = words(text) if named else frozenset()
    missing = [name for name in named if begun.isdisjoint(_beginnings(name, language, other))]
    if not missing or (other and len(missing) < len(named)):
        return False
    spoken = frozenset(text.split())
    are_there = (bool(get_close_matches(name, spoken, 1, _TYPING_ERROR)) for name in missing)
    return not (any(are_there) if other else all(are_there))


def _beginnings(name: str, language: str | None, other: str | None) -> frozenset[str]:
    """Return how a name begins, and how what it is called in another language does."""
    found = {name}
    if language and other:
        terms = (each for each in content_terms(name, language) if is_known_whole(each, language))
        found.update(*(related(each, language, other) for each in terms))
    return frozenset(map(beginning, found))
