import pytest
from groundline.v1 import chat_pb2
from groundline_generator.domain.rewriting import decompose, standalone
from groundline_tests.generator.messages import user


def asked(*questions: str) -> list[chat_pb2.ChatMessage]:
    return [
        message
        for question in questions
        for message in (
            user(question),
            chat_pb2.ChatMessage(role=chat_pb2.ChatMessage.ASSISTANT, content="An answer about Norway."),
        )
    ]


@pytest.mark.parametrize(
    "query",
    [
        "What does the Falcon 9 weigh?",
        "Is it possible to export all invoices as CSV?",
        "Welche Fristen gelten für die Rückgabe von Möbeln?",
        "Gibt es einen Rabatt für Studenten im ersten Jahr?",
    ],
)
def test_a_question_that_stands_alone_is_left_alone(query: str) -> None:
    assert standalone(query, asked("How long does shipping to Germany take?")) == query


@pytest.mark.parametrize("query", ["How long does it last?", "Why?", "And to Austria?"])
def test_without_a_conversation_nothing_is_carried_over(query: str) -> None:
    assert standalone(query, []) == query


def test_what_the_assistant_said_is_not_carried_over() -> None:
    assert "Norway" not in standalone("Why?", asked("What is a heat pump?"))


@pytest.mark.parametrize(
    ("history", "query", "expected"),
    [
        (
            ["What does the X200 pump weigh?"],
            "How long does it last?",
            "How long does it last (X200 pump weigh)?",
        ),
        (["What does shipping to Germany cost?"], "And to Austria?", "to Austria (shipping cost)?"),
        (["What does shipping to Germany cost?"], "What about Austria?", "Austria (shipping cost)?"),
        (["Who wrote Faust?"], "When was he born?", "When was he born (wrote Faust)?"),
        (["Who wrote Faust?"], "Why?", "Why (wrote Faust)?"),
        (["Wer schrieb Faust?"], "Wann wurde er geboren?", "Wann wurde er geboren (schrieb Faust)?"),
        (["Was kostet der Versand nach Wien?"], "Und nach Graz?", None),
        (["Wie lange gilt die Garantie der Pumpe?"], "Was ist davon ausgenommen?", None),
    ],
)
def test_a_follow_up_takes_over_the_topic(history: list[str], query: str, expected: str | None) -> None:
    result = standalone(query, asked(*history))
    if expected is not None:
        assert result == expected
    else:
        assert result != query
        assert {"Versand", "Garantie"} & set(result.replace("(", " ").replace(")", " ").split())


@pytest.mark.parametrize(
    ("history", "query", "expected"),
    [
        (["Wie viele Urlaubstage habe ich in Kiel?"], "Und in Galway?", "in Galway (Urlaubstage)?"),
        (["What do you pay for a car?"], "And for a bicycle?", "for a bicycle (pay)?"),
        (["What is the lifetime of the key?"], "And of the token?", "of the token (lifetime)?"),
        (
            ["Wann hat der Betriebsrat in Kiel Sprechstunde?"],
            "Und in welchem Raum?",
            "in welchem Raum (Betriebsrat Kiel Sprechstunde)?",
        ),
        (
            ["How much parental leave does the parent who gives birth have?"],
            "And the other parent?",
            "the other parent (parental leave)?",
        ),
    ],
)
def test_a_follow_up_leaves_out_what_it_replaces(history: list[str], query: str, expected: str) -> None:
    assert standalone(query, asked(*history)) == expected


def test_the_first_question_is_the_topic_even_if_it_seems_to_point_back() -> None:
    result = standalone("And the DN-6?", asked("How heavy is the DN-4 with its battery?"))
    assert result == "the DN-6 (heavy battery)?"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What does the one for the DN-6 cost?", "What does the one for the DN-6 cost (oxygen probes)?"),
        ("How long before?", "How long before (oxygen probes)?"),
    ],
)
def test_the_one_and_before_point_back(query: str, expected: str) -> None:
    assert standalone(query, asked("Which oxygen probes are there?")) == expected


def test_follow_ups_of_follow_ups_reach_back_to_the_topic() -> None:
    result = standalone("And to Poland?", asked("What does shipping to Germany cost?", "And to Austria?"))
    assert result == "to Poland (shipping cost)?"


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("What is the difference between HNSW and IVFFlat?", ("HNSW", "IVFFlat")),
        (
            "Compare the Basic plan with the Pro plan for teams",
            ("Basic plan for teams", "Pro plan for teams"),
        ),
        ("HNSW vs. IVFFlat", ("HNSW", "IVFFlat")),
        ("How does HNSW differ from IVFFlat?", ("HNSW", "IVFFlat")),
        ("Was ist der Unterschied zwischen Miete und Leasing?", ("Miete", "Leasing")),
        ("Vergleiche die Miete mit dem Leasing.", ("Miete", "Leasing")),
        ("Worin unterscheidet sich Miete von Leasing?", ("Miete", "Leasing")),
        ("Who founded Acme? Where is Globex based?", ("Who founded Acme?", "Where is Globex based?")),
        (
            "What does the X200 weigh and how long does it last?",
            ("What does the X200 weigh?", "how long does it last (X200 weigh)?"),
        ),
        (
            "Was kostet die Pumpe und wann kommt die Lieferung?",
            ("Was kostet die Pumpe?", "wann kommt die Lieferung?"),
        ),
        (
            "Please tell me when the shop opens and at which gate the bus stops.",
            ("Please tell me when the shop opens?", "at which gate the bus stops?"),
        ),
        (
            "Was kostet ein Platz, und ab wie vielen Leuten gilt der Rabatt?",
            ("Was kostet ein Platz?", "ab wie vielen Leuten gilt der Rabatt?"),
        ),
        (
            "Was kostet der Eintritt und wann schließt das Café?",
            ("Was kostet der Eintritt?", "wann schließt das Café?"),
        ),
    ],
)
def test_several_questions_come_apart(query: str, parts: tuple[str, ...]) -> None:
    assert decompose(query, 4) == parts


@pytest.mark.parametrize(
    "query",
    [
        "Which plans include backups and monitoring?",
        "Who is the head of research and development?",
        "How do I reset my password?",
        "Really? Thanks!",
        "",
    ],
)
def test_a_simple_question_stays_whole(query: str) -> None:
    assert decompose(query, 4) == ()


def test_decomposition_keeps_to_its_limit() -> None:
    query = "Who is A1? Who is B2? Who is C3?"
    assert len(decompose(query, 2)) == 2
    assert decompose(query, 1) == ()
