"""Questions for what a word means or letters stand for."""

from functools import partial

import pytest
from groundline_generator.domain.asking.defining import spells_out
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)

PLAN = numbered(
    1,
    "# Individual Development Plan (IDP)\n\nTalk about an IDP with your supervisor every year.\n\n"
    "```\nidp = load(idp)\n```\n\nThe TRC answers questions.",
    title="Development",
)
LOGIN = numbered(
    2, "Each token is signed by the identity provider (IdP). Keys of the IdP change.", title="Login"
)
PAKETE = numbered(
    3,
    "Ein verwaistes Paket darf übernommen werden. Fehlt der Betreuer, stellt er einen »Request for Adoption« "
    "(RFA). Jede RFA wird von der Redaktion gelesen.",
    title="Pakete",
)


@pytest.mark.parametrize(
    ("text", "acronym"),
    [
        ("The identity provider (IdP) signs tokens.", "IDP"),
        ("An IdP (identity provider) signs tokens.", "IdP"),
        ("IDP stands for identity provider.", "IDP"),
        ("IDP: identity provider", "IDP"),
        ("So lassen sich FTBFS-Fehler (»Fails To Build From Source«) vermeiden.", "FTBFS"),
    ],
)
def test_a_text_gives_the_words_for_letters(text: str, acronym: str) -> None:
    assert spells_out(text, acronym)


@pytest.mark.parametrize(
    "text",
    ["Ask the IDP (see below).", "The IDP signs tokens.", "The plan (IDP) is due.", "The IDP means trouble."],
)
def test_a_text_that_only_mentions_letters_does_not_give_their_words(text: str) -> None:
    assert not spells_out(text, "IDP")


def test_letters_without_their_words_are_refused_where_only_the_words_would_answer() -> None:
    assert answers("What does TRC stand for?", [PLAN]).extracts == ()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("What does IDP stand for?", "Individual Development Plan (IDP)"),
        ("What is IdP short for?", "identity provider (IdP)"),
        ("Was bedeutet die Abkürzung RFA?", "»Request for Adoption« (RFA)"),
    ],
)
def test_the_words_for_letters_are_quoted_also_from_a_heading(query: str, said: str) -> None:
    passages = [PAKETE] if query.startswith("Was") else [LOGIN] if "IdP" in query else [PLAN]
    assert said in answers(query, passages).extracts[0].text


CRIB = numbered(
    4,
    "Discard two cards to the crib. The crib, the crib and the crib again decide a game.\n\n"
    "```\ncrib = crib + 1\n```\n\nA crib is a second hand of the dealer. Count the crib last.",
    title="Rules",
)
GLOSSAR = numbered(
    5,
    "Antialiasing kostet Zeit. Mit Antialiasing sieht Text besser aus. Antialiasing ist eine Maßnahme gegen "
    "Treppen an Kanten.",
    title="Bilder",
)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("What is a crib?", "A crib is a second hand"),
        ("What does crib mean?", "A crib is a second hand"),
        ("Was versteht man unter Antialiasing?", "Antialiasing ist eine Maßnahme"),
    ],
)
def test_a_definition_is_quoted_before_mentions_and_code(query: str, said: str) -> None:
    found = answers(query, [GLOSSAR if query.startswith("Was") else CRIB]).extracts
    assert said in " ".join(each.text for each in found)
    assert not any(each.is_code for each in found)
