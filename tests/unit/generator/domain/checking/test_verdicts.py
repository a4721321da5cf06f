"""Verdicts of the rules, and the claims that they are on."""

import pytest
from groundline.v1 import error_pb2, verification_pb2
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.checking.claims import claims_of
from groundline_generator.domain.checking.verdicts import nearest, verdict_on
from groundline_tests.generator.messages import numbered

NOT_FOUND, REFUTED = verification_pb2.VERDICT_NOT_FOUND, verification_pb2.VERDICT_REFUTED
SUPPORTED = verification_pb2.VERDICT_SUPPORTED
NUMBER, NAME = error_pb2.NUMBER_NOT_SUPPORTED, error_pb2.NAME_NOT_SUPPORTED
OTHERWISE, UNSUPPORTED = error_pb2.CONTRADICTED_SENTENCE, error_pb2.UNSUPPORTED_SENTENCE

MANUAL = numbered(
    4,
    "The DN-4 floats in harbours. Close the four screws of the hatch crosswise with 1.8 Nm. "
    "Do not open the hatch at sea. Tesla moved from Prague to Budapest in 1881.",
    title="Manual of the DN-4",
)
HANDBUCH = numbered(
    5, "Schließen Sie die vier Schrauben mit 1,8 Nm. Die Fähre fährt im Sommer von Kiel nach Oslo."
)


def verdict(text: str, *passages: pb.NumberedPassage, context: str = "") -> pb.ClaimVerdict:
    return verdict_on(pb.Claim(text=text, context=context), passages or (numbered(1, "Other."), MANUAL))


@pytest.mark.parametrize(
    ("text", "reason", "claimed", "said"),
    [
        ("Close the four screws of the hatch crosswise with 2.8 Nm.", NUMBER, "2.8 Nm", "1.8 Nm"),
        ("Close the four screws of the hatch crosswise with 1.8 kNm.", NUMBER, "1.8 kNm", "1.8 Nm"),
        ("Close the five screws of the hatch crosswise with 1.8 Nm.", NUMBER, "five", "four"),
        ("Tesla moved from Prague to Budapest in 1891.", NUMBER, "1891", "1881"),
        ("Tesla moved from Vienna to Budapest in 1881.", NAME, "Vienna", "Prague"),
        ("Edison moved from Prague to Budapest in 1881.", NAME, "Edison", "Tesla"),
        ("The DN-6 floats in harbours.", NAME, "DN-6", "DN-4"),
        ("Open the hatch at sea.", OTHERWISE, "", "not"),
        ("Do not close the four screws of the hatch crosswise with 1.8 Nm.", OTHERWISE, "not", ""),
        ("Open the four screws of the hatch crosswise with 1.8 Nm.", OTHERWISE, "Open", "Close"),
    ],
)
def test_what_a_passage_says_otherwise_refutes(text: str, reason: int, claimed: str, said: str) -> None:
    found = verdict(text)
    assert (found.verdict, found.reason) == (REFUTED, reason)
    assert list(found.words) == ([claimed] if claimed else [])
    [evidence] = found.evidence
    assert evidence.passage_number == 4
    assert list(evidence.words) == ([said] if said else [])
    assert said in MANUAL.text[evidence.start_offset : evidence.end_offset]
    assert all(f'"{word}"' in found.message for word in (claimed or said,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Whales sing.", []),
        ("The DN-4 sings.", []),
        ("Tesla left Prague.", []),
        ("The screws come from a mine in Chile.", []),
        ("Tesla moved from Prague to Budapest in May 1881.", ["May"]),
        ("Tesla moved with Mileva from Prague to Budapest in 1881.", ["Mileva"]),
        ("Close the four screws of the hatch crosswise with 1.8 Nm after 30 days.", ["30 days"]),
    ],
)
def test_what_no_passage_has_is_not_found(text: str, words: list[str]) -> None:
    found = verdict(text)
    assert (found.verdict, found.reason) == (NOT_FOUND, UNSUPPORTED)
    assert list(found.words) == words


PRICES = numbered(
    6,
    "The deposit is £18 and is returned within fourteen days. In 2023 the firm hired 48 people. "
    "The hall closes at 9 p.m. The port sent 1.2 million tonnes of grain. Keep the store below 8 °C. "
    "Half of the staff work on Fridays. Tickets cost 12 euros for adults and 7 euros for children.",
)
PREISE = numbered(
    7,
    "Der Vertrag läuft zwei Jahre. Am Freitag öffnet das Lager um 14 Uhr. Es fasst 35 Paletten. "
    "Das Gesetz trat am 01.07.2021 in Kraft. Anträge sind bis 31.3. einzureichen.",
)
DATES = numbered(
    8,
    "The contract was signed on 3 April 2024 in Bergen. The course runs from 2024-09-02 to 2024-12-13. "
    "Invoices are due by 28/02/2027. The rent was raised on 3/4/2019.",
)


@pytest.mark.parametrize(
    "text",
    [
        "The deposit is 18 pounds and is returned within two weeks.",
        "In 2023 the firm hired forty-eight people.",
        "The hall closes at 21:00.",
        "The port sent 1,200,000 tonnes of grain.",
        "Keep the store below 8 degrees Celsius.",
        "Der Vertrag läuft 24 Monate.",
        "Am Freitag öffnet das Lager um 14:00 Uhr.",
        "Das Lager fasst fünfunddreißig Paletten.",
        "Das Gesetz trat am 1. Juli 2021 in Kraft.",
        "Das Gesetz trat im Juli 2021 in Kraft.",
        "Anträge sind bis 31. März einzureichen.",
        "The contract was signed on 2024-04-03 in Bergen.",
        "The contract was signed on April 3rd, 2024 in Bergen.",
        "The contract was signed on 03.04.2024 in Bergen.",
        "The course runs from 2 September to 13 December 2024.",
        "Invoices are due by 28 February 2027.",
        "The rent was raised on 3 April 2019.",
        "The rent was raised on March 4, 2019.",
        "The course runs until December 13, 2024.",
    ],
)
def test_a_number_or_date_in_another_unit_or_form_is_supported(text: str) -> None:
    assert verdict(text, PRICES, PREISE, DATES).verdict == SUPPORTED


@pytest.mark.parametrize(
    ("text", "claimed", "said"),
    [
        ("The deposit is £19 and is returned within fourteen days.", "£19", "£18"),
        ("In 2023 the firm hired forty-six people.", "forty-six", "48"),
        ("The port sent 1.2 billion tonnes of grain.", "1.2 billion", "1.2 million"),
        ("In 2023 the firm dismissed 48 people.", "dismissed", "hired"),
        ("A quarter of the staff work on Fridays.", "quarter", "Half"),
        ("Half of the staff work on Mondays.", "Mondays", "Fridays"),
        ("Tickets cost 7 euros for adults and 12 euros for children.", "7", "12"),
        ("The contract was signed on 2024-03-04 in Bergen.", "2024-03-04", "3 April 2024"),
        ("The contract was signed on April 5, 2024 in Bergen.", "April 5, 2024", "3 April 2024"),
        ("Das Gesetz trat am 1. August 2021 in Kraft.", "1. August 2021", "01.07.2021"),
        ("Am Freitag schließt das Lager um 14 Uhr.", "schließt", "öffnet"),
        ("Am Samstag öffnet das Lager um 14 Uhr.", "Samstag", "Freitag"),
    ],
)
def test_another_value_opposite_or_place_of_two_numbers_refutes(text: str, claimed: str, said: str) -> None:
    found = verdict(text, PRICES, PREISE, DATES)
    assert found.verdict == REFUTED
    assert (list(found.words), list(found.evidence[0].words)) == ([claimed], [said])


FIRMS = numbered(
    9,
    "Acme bought Bolt in 2019. Maria Keller is the supervisor of Jonas Weidt. "
    "Sven works in Oslo and Tilda works in Turku. Norway borders Sweden. "
    "Dr. Ito trained Dr. Paz at the clinic.",
)
FIRMEN = numbered(10, "Bayreuth besiegte Potsdam im Finale mit 3:1. Quentin hat Sigrun im Mai eingestellt.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In 2019 Acme bought Bolt.", SUPPORTED),
        ("Bolt was bought by Acme in 2019.", SUPPORTED),
        ("Jonas Weidt's supervisor is Maria Keller.", SUPPORTED),
        ("Tilda works in Turku and Sven works in Oslo.", SUPPORTED),
        ("Sweden borders Norway.", SUPPORTED),
        ("Dr. Paz was trained by Dr. Ito at the clinic.", SUPPORTED),
        ("Potsdam wurde im Finale von Bayreuth mit 3:1 besiegt.", SUPPORTED),
        ("Im Mai hat Quentin Sigrun eingestellt.", SUPPORTED),
        ("Bolt bought Acme in 2019.", REFUTED),
        ("Acme was bought by Bolt in 2019.", REFUTED),
        ("Jonas Weidt is the supervisor of Maria Keller.", REFUTED),
        ("Maria Keller's supervisor is Jonas Weidt.", REFUTED),
        ("Tilda works in Oslo and Sven works in Turku.", REFUTED),
        ("Dr. Paz trained Dr. Ito at the clinic.", REFUTED),
        ("Potsdam besiegte Bayreuth im Finale mit 3:1.", NOT_FOUND),
        ("Bayreuth wurde von Potsdam mit 3:1 besiegt.", NOT_FOUND),
        ("Sigrun hat Quentin im Mai eingestellt.", NOT_FOUND),
    ],
)
def test_two_names_in_each_others_place_are_not_supported(text: str, expected: int) -> None:
    assert verdict(text, FIRMS, FIRMEN).verdict == expected


def test_without_passages_nothing_is_found() -> None:
    found = verdict_on(pb.Claim(text="Whales sing."), ())
    assert found.verdict == NOT_FOUND
    assert not found.evidence


@pytest.mark.parametrize(
    "text",
    [
        "Close the four screws of the hatch crosswise with 1.8 Nm.",
        "With 1.8 Nm, crosswise, the hatch's four screws are closed.",
        "The hatch must not be opened at sea.",
        "In 1881 Tesla moved to Budapest from Prague.",
        "In 1881 Tesla moved to Budapst from Prague.",
        "The DN 4 floats in harbours.",
    ],
)
def test_a_sentence_that_says_so_supports_a_claim(text: str) -> None:
    found = verdict(text)
    assert (found.verdict, found.reason, list(found.words), found.message) == (SUPPORTED, 0, [], "")
    [evidence] = found.evidence
    assert (evidence.passage_number, list(evidence.words)) == (4, [])


def test_a_passage_that_agrees_outweighs_one_that_does_not() -> None:
    other = numbered(1, "Close the four screws of the hatch crosswise with 2.2 Nm.")
    assert (
        verdict("Close the four screws of the hatch crosswise with 1.8 Nm.", other, MANUAL).verdict
        == SUPPORTED
    )


def test_what_a_claim_refers_to_counts() -> None:
    passage = numbered(1, "The DN-4 weighs 9 kg.")
    assert verdict("It weighs 9 kg.", passage, context="The DN-4 is small.").verdict == SUPPORTED
    assert verdict("It weighs 8 kg.", passage, context="The DN-4 is small.").verdict == REFUTED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Schließen Sie die vier Schrauben mit 1,8 Nm.", SUPPORTED),
        ("Die vier Schrauben werden mit 1,8 Nm geschlossen.", SUPPORTED),
        ("Schließen Sie die vier Schrauben mit 2,8 Nm.", REFUTED),
        ("Schließen Sie die vier Schrauben nicht mit 1,8 Nm.", REFUTED),
        ("Die Fähre fährt im Winter von Kiel nach Oslo.", REFUTED),
        # A noun has a capital as a name has: that it stands in another's place refutes nothing.
        ("Die Fähre fährt im Sommer von Rostock nach Oslo.", NOT_FOUND),
    ],
)
def test_german_is_compared_as_well(text: str, expected: int) -> None:
    assert verdict(text, HANDBUCH).verdict == expected


def test_the_nearest_sentence_of_a_passage_is_told() -> None:
    start, end = nearest(pb.Claim(text="The hatch stays closed at sea."), MANUAL)
    assert MANUAL.text[start:end] == "Do not open the hatch at sea."
    assert nearest(pb.Claim(text="Whales sing."), MANUAL) == (0, len(MANUAL.text))


def test_a_text_is_cut_into_claims_with_their_places() -> None:
    text = (
        "# The DN-4\n\nIt floats. [1] It weighs 9 kg [2][3]. Does it sink?\n\n```\nx = 1\n```\n\n"
        "- Ünder 2.5 kN it holds.\n\n| part | mass |\n| --- | --- |\n| hatch | 1 kg |\n"
    )
    found = list(claims_of(text))
    assert [text[each.start_offset : each.end_offset] for each in found] == [
        "It floats.",
        "It weighs 9 kg [2][3].",
        "Ünder 2.5 kN it holds.",
        "| hatch | 1 kg |",
    ]
    assert [each.text for each in found[:2]] == ["It floats.", "It weighs 9 kg ."]
    assert [each.context for each in found] == [
        "The DN-4",
        "The DN-4 It floats.",
        "The DN-4",
        "The DN-4 part | mass",
    ]


@pytest.mark.parametrize("text", ["---", "Really?", "# Title", "...", "```\ncode = 1\n```"])
def test_what_claims_nothing_has_no_claims(text: str) -> None:
    assert list(claims_of(text)) == []
