from collections.abc import Sequence
from functools import partial

import pytest
from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.quoting.extraction import extract
from groundline_tests.generator.messages import numbered

answers = partial(extract, min_relevance=0.4, max_sentences=3)

PORTS = numbered(
    1,
    "# Ports\n\nThe gateway listens on port 8080. It speaks HTTP.\n\nThe retriever listens on port 9001.",
    title="Operations",
)
BACKUP = numbered(2, "Backups run every night. They are kept for 30 days in object storage.", title="Backups")


def test_no_passage_answers_nothing() -> None:
    assert answers("Which port?", []).extracts == ()


@pytest.mark.parametrize("query", ["?", "What is it?", "...", "who", "🎉"])
def test_a_question_without_informative_terms_is_refused(query: str) -> None:
    assert answers(query, [PORTS, BACKUP]).extracts == ()


@pytest.mark.parametrize(
    "query", ["Who won the Super Bowl in 1998?", "Welche Hauptstadt hat Frankreich?", "salary of the CEO"]
)
def test_a_question_that_no_passage_speaks_of_is_refused(query: str) -> None:
    result = answers(query, [PORTS, BACKUP])
    assert result.extracts == ()
    assert result.relevance < 0.4


TORQUE = numbered(
    3,
    "Tighten the cover of the DN-4 with a torque of 1.8 Nm. Clara Voss approved it in Kiel in 2019.",
    title="DN-4",
)


@pytest.mark.parametrize(
    "query",
    [
        "With which torque is the cover of the DN-5 tightened?",
        "Who approved the cover of the DN-4 in 2018?",
        "In which year was the DN-4's cover approved in Hamburg?",
        "Wer hat die Abdeckung in Hamburg approved?",
    ],
)
def test_a_question_about_another_subject_is_refused(query: str) -> None:
    assert answers(query, [TORQUE, PORTS]).extracts == ()


@pytest.mark.parametrize(
    "query",
    [
        "With which torque is the cover of the DN-4 tightened?",
        "With which torque is the cover of the DN 4 tightened?",
        "Who approved the cover of the DN-4 in 2019?",
        "What did Clara Vos approve in Kiel?",
    ],
)
def test_a_question_about_the_subject_is_answered_a_typing_error_aside(query: str) -> None:
    assert [extract.number for extract in answers(query, [TORQUE, PORTS]).extracts][:1] == [3]


HALL = numbered(
    11,
    "Staff have 27 days of annual leave. The hall has 36 racks, and two cooling units stand beside them. "
    "In 2024 the rows of the hall were numbered. None of the doors has a lock.\n\n"
    "| Hall | Ports | Doors |\n|---|---|---|\n| East hall | 48 | 3 |",
    title="Hall",
)
URLAUB = numbered(
    12,
    "Beschäftigte haben 29 Arbeitstage Urlaub im Jahr. Das Gerät hat 5 Mahlstufen und seit 2024 neue Tasten.",
    title="Regeln",
)


@pytest.mark.parametrize(
    "query",
    [
        "How many days of parental leave do staff have?",
        "How many rows does the hall have?",
        "How many windows does the east hall have?",
        "Wie viele Krankheitstage haben Beschäftigte im Jahr?",
        "Wie viele Tasten hat das Gerät?",
    ],
)
def test_a_number_of_other_things_is_no_count(query: str) -> None:
    assert answers(query, [URLAUB if query.startswith("Wie") else HALL]).extracts == ()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("How many days of leave do staff have?", "27 days"),
        ("How many racks are in the hall?", "36 racks"),
        ("How many ports does the east hall have?", "Ports: 48"),
        ("How many people work in the hall of 36 racks?", "36 racks"),
        ("How many doors have a lock?", "None"),
        ("Wie viele Urlaubstage haben Beschäftigte?", "29 Arbeitstage"),
        ("Wie viele Mahlstufen hat das Gerät?", "5 Mahlstufen"),
    ],
)
def test_things_are_counted_by_the_number_beside_them(query: str, said: str) -> None:
    assert said in answers(query, [URLAUB if query.startswith("Wie") else HALL]).extracts[0].text


PRICES = numbered(
    6,
    "Members paid 19 pence for a unit of current from 2020 until March 2023. Now it is 27 pence.",
    title="Prices of current",
)
FERRY = numbered(7, "Until 2014 the crossing cost 8 crowns. Since 2015 it has been 11 crowns.", title="Ferry")
HISTORY = numbered(8, "The cooperative was founded in 1998. The shed burnt down in 2009.", title="History")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        # One passage mentions the year, but none gives a price for it.
        ("What did members pay for a unit of current in 1998?", None),
        ("What did members pay for a unit of current in 2020?", "19 pence"),
        ("What did the crossing cost in 2009?", "8 crowns"),
        ("When did the shed burn down?", "2009"),
    ],
)
def test_a_year_before_all_that_a_passage_tells_is_not_answered(query: str, said: str | None) -> None:
    quoted = " ".join(extract.text for extract in answers(query, [PRICES, FERRY, HISTORY]).extracts)
    assert (said in quoted) if said else not quoted


YARD = numbered(
    4,
    "Visitors may park in the east yard. In the west yard they must not park. "
    "Gloves can be thrown into the blue bin. Hunde dürfen auf der Südwiese frei laufen. "
    "Auf dem Spielplatz sind Hunde verboten.",
    title="The yard",
)


@pytest.mark.parametrize(
    ("query", "said", "never"),
    [
        ("Where may visitors park?", "east yard", ""),
        ("Where are visitors not allowed to park?", "west yard", "east yard"),
        ("Where can't visitors park?", "", "east yard"),
        ("What must not be thrown into the blue bin?", "", "Gloves"),
        ("What does not go into the blue bin?", "", "Gloves"),
        ("Which visitors are excluded from the east yard?", "", "east yard"),
        ("Which visitors are barred from parking?", "west yard", "east yard"),
        ("Was ist auf dem Spielplatz tabu?", "Hunde verboten", "Südwiese"),
        ("Was läuft auf der Südwiese nicht frei?", "", "Südwiese"),
        ("Wo dürfen Hunde frei laufen?", "Südwiese", ""),
        ("Wo dürfen Hunde nicht frei laufen?", "Spielplatz", "Südwiese"),
    ],
)
def test_what_is_permitted_does_not_answer_what_is_forbidden(query: str, said: str, never: str) -> None:
    quoted = " ".join(each.text for each in answers(query, [YARD, PORTS]).extracts)
    assert said in quoted
    assert not never or never not in quoted


def test_an_answer_is_the_likelier_the_less_another_passage_says_of_it_copies_aside() -> None:
    alone, copied, rivalled = (
        answers("How long are backups kept?", [BACKUP, numbered(3, text)]).likelihood
        for text in ("It rains.", BACKUP.text, "Backups of laptops are kept for 7 days.")
    )
    assert rivalled < copied <= alone < 1


def test_headings_alone_are_not_an_answer() -> None:
    assert answers("backup retention", [numbered(1, "# Backup retention")]).extracts == ()


def test_dissimilar_passages_are_refused_sooner() -> None:
    def ask(similarity: float) -> float:
        return answers("nightly backup cost", [numbered(1, BACKUP.text, similarity=similarity)]).relevance

    assert ask(-0.2) < ask(0.8)


def test_the_sentence_that_answers_is_quoted_with_its_number() -> None:
    (best, *_) = answers("On which port does the gateway listen?", [BACKUP, PORTS]).extracts
    assert (best.number, best.text) == (1, "The gateway listens on port 8080.")


def test_german_questions_find_inflected_answers() -> None:
    passage = numbered(1, "Das Haus ist alt. Die Sicherungen werden dreißig Tage lang aufbewahrt.")
    (best, *_) = answers("Wie lange wird eine Sicherung aufbewahrt?", [passage]).extracts
    assert best.text == "Die Sicherungen werden dreißig Tage lang aufbewahrt."


def test_what_is_asked_for_decides_between_equal_sentences() -> None:
    passage = numbered(1, "The tower of Pisa opened to visitors. The tower of Pisa opened in 1372.")
    (best,) = extract(
        "When was the tower of Pisa opened?", [passage], min_relevance=0.4, max_sentences=1
    ).extracts
    assert best.text.endswith("1372.")


def test_repeated_sentences_are_quoted_once() -> None:
    copy = numbered(3, BACKUP.text)
    texts = [e.text for e in answers("How long are backups kept?", [BACKUP, copy]).extracts]
    assert len(texts) == len(set(texts))


def test_never_more_sentences_than_allowed() -> None:
    passage = numbered(1, " ".join(f"The port of service number {n} is {9000 + n}." for n in range(20)))
    assert len(extract("service port", [passage], min_relevance=0, max_sentences=2).extracts) <= 2


def test_sentences_of_one_passage_keep_their_order() -> None:
    passage = numbered(1, "First mix flour with water. Later mix flour with yeast.")
    texts = [e.text for e in answers("mix flour", [passage]).extracts]
    assert texts == ["First mix flour with water.", "Later mix flour with yeast."]


def test_the_documents_own_footnote_marks_are_left_out() -> None:
    passage = numbered(1, "The bridge[3] was built\nin 1890.[12]")
    assert (
        answers("When was the bridge built?", [passage]).extracts[0].text == "The bridge was built in 1890."
    )


def test_code_is_quoted_as_it_stands() -> None:
    passage = numbered(1, "```\ndef max_retry_count():\n    return 5\n```")
    (code,) = answers("What does max_retry_count return?", [passage]).extracts
    assert code.is_code
    assert code.text == "def max_retry_count():\n    return 5"


def test_a_checkpoint_stops_the_work() -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    with pytest.raises(StopError):
        answers("port", [PORTS], checkpoint=stop)


def test_a_quotation_keeps_intervals_and_loses_what_would_read_as_citations() -> None:
    passage = numbered(1, "The score of a passage lies in [0, 1] as shown earlier [3, 4].")
    extraction = extract("Where does the score lie?", [passage], min_relevance=0.1, max_sentences=1)
    assert extraction.extracts[0].text == "The score of a passage lies in [0, 1] as shown earlier."


def test_a_sentence_that_refers_back_is_read_with_the_one_before() -> None:
    passage = numbered(
        1, "The stock exchange of Warsaw is old. It was closed for years. It was reopened in 1991."
    )
    quoted = answers("When was the stock exchange reopened?", [passage]).extracts
    assert "It was reopened in 1991." in [each.text for each in quoted]
    passage = numbered(
        1, "Die Börse von Warschau ist alt. Sie wurde 1991 wieder eröffnet. Der Park ist groß."
    )
    quoted = answers("Wann wurde die Warschauer Börse eröffnet?", [passage]).extracts
    assert "Sie wurde 1991 wieder eröffnet." in [each.text for each in quoted]


def test_what_a_german_question_is_about_weighs_more_than_how_it_is_worded() -> None:
    about = numbered(1, "Der Leuchtturm von Kiel steht seit hundert Jahren.")
    worded = numbered(1, "Ein Betrag wurde sofort endgültig bewilligt.")
    query = "Wurde der Leuchtturm endgültig bewilligt?"
    assert answers(query, [about]).relevance > answers(query.lower(), [about]).relevance
    assert answers(query, [worded]).relevance < answers(query.lower(), [worded]).relevance


DN4 = numbered(1, "Tighten the screws of the hatch with 1.8 Nm.", title="DN-4: manual")
DN6 = numbered(2, "Tighten the screws of the hatch and of the mast with 2.4 Nm.", title="DN-6: manual")


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("How tight are the screws of the hatch of the DN-4?", [1]),
        ("How tight are the screws of the hatch of the DN-6?", [2]),
        ("How tight are the screws of the hatch?", [1, 2]),
    ],
)
def test_a_sentence_on_another_model_is_not_quoted_as_well(question: str, quoted: list[int]) -> None:
    assert [each.number for each in answers(question, [DN4, DN6]).extracts] == quoted


def data(number: int, model: str, *rows: str) -> pb.NumberedPassage:
    table = "\n".join(f"| {row} |" for row in (f" | {model}", "---|---", *rows))
    return numbered(number, f"# {model}\n\nThe {model} has many parts.\n\n{table}", title=f"{model}: manual")


X2 = data(1, "X2", "weight with case | 14 kg", "length | 42 cm")
X5 = data(2, "X5", "weight with case | 31 kg", "length | 68 cm")


def quotes(query: str, passages: Sequence[pb.NumberedPassage]) -> list[str]:
    return [each.text for each in answers(query, passages).extracts]


@pytest.mark.parametrize("query", ["Is the X2 or the X9 heavier?", "Is the X2 louder than the X5?"])
def test_a_comparison_without_both_sides_is_refused(query: str) -> None:
    assert quotes(query, [X2, X5]) == []


@pytest.mark.parametrize(
    "query",
    ["Is the X2 or the X5 heavier?", "Is the X5 heavier than the X2?", "Ist die X2 oder die X5 schwerer?"],
)
def test_a_comparison_quotes_the_rows_of_both_tables_in_words(query: str) -> None:
    assert set(quotes(query, [X2, X5])) == {"weight with case – X2: 14 kg.", "weight with case – X5: 31 kg."}


def test_a_sentence_that_speaks_of_both_sides_is_quoted_once() -> None:
    both = numbered(1, "An X2 lasts 21 days and an X5 lasts 45 days. An X2 is blue.")
    assert quotes("Which lasts longer, the X2 or the X5?", [both]) == [
        "An X2 lasts 21 days and an X5 lasts 45 days."
    ]


HERON = numbered(1, "A night costs £96. It sleeps six.", title="Cabin Heron")
OTTER = numbered(2, "It sleeps four. It costs £74 a night and was built in 1988.", title="Cabin Otter")


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("Which cabin is cheaper, the Otter or the Heron?", {"A night costs £96.", OTTER.text[16:]}),
        ("Was the Otter or the Heron built earlier?", set[str]()),
        ("Is the Otter heavier than the Heron?", set[str]()),
    ],
)
def test_a_comparison_quotes_values_of_the_measure_that_its_adjective_asks_for(
    query: str, quoted: set[str]
) -> None:
    assert set(quotes(query, [HERON, OTTER])) == quoted


def test_a_row_names_its_columns_where_it_has_several() -> None:
    markdown = "| part | price | delivery |\n|---|---|---|\n| red filter | 18 EUR | 3 days |"
    aligned = "Part   Price    Delivery\nred filter   18 EUR   3 days\nblue filter   20 EUR   5 days"
    for text in (markdown, aligned):
        (best, *_) = quotes("What is the price of the red filter?", [numbered(1, text)])
        assert best.casefold() == "red filter – price: 18 eur; delivery: 3 days."


def test_steps_are_quoted_rather_than_fragments_where_somebody_asks_what_to_do() -> None:
    passage = numbered(
        1,
        "# Runbook: database\n\nAlert: `DatabasePrimaryDown`.\n\nIt names one database primary.\n\n"
        "| code | meaning |\n|---|---|\n"
        "| 503 | database primary changes |\n\n1. Make sure that the old primary of the database is fenced.\n"
        "2. Scale the writers to four.\n3. Watch the lag until the failed server is back.\n\n"
        "The office informs customers by phone. Nobody is blamed.",
    )
    (best, *_) = quotes("What do I do when the database primary dies?", [passage])
    assert best == "Make sure that the old primary of the database is fenced."


def test_a_comparative_that_compares_nothing_asks_for_no_figure() -> None:
    passage = numbered(
        1,
        "# Travel\n\n## Approval\n\nTrips of up to three days are approved by the team lead. "
        "Longer trips are approved by the head of department.\n\n## Trains and flights\n\n"
        "Book second class on trains. Flights within Europe are booked in economy.",
        title="Travel",
    )
    assert quotes("Who approves longer trips?", [passage]) == [
        "Longer trips are approved by the head of department."
    ]


def test_one_passage_alone_is_enough_though_most_of_its_sentences_speak_of_what_the_question_does() -> None:
    passage = numbered(
        1, "The mill burned down in 1711. The mill was built anew. Nobody knows who set the mill on fire."
    )
    assert "The mill burned down in 1711." in answers("When did the mill burn?", [passage]).extracts[0].text


@pytest.mark.parametrize(
    ("query", "text", "quoted"),
    [
        (
            "What did the young bishop found in Kiel?",
            "The cathedral is large. Bishop Horn came in 1702. He founded a school in Kiel. Nobody came.",
            ["Bishop Horn came in 1702.", "He founded a school in Kiel."],
        ),
        (
            "When did the chapel of the northern harbour open?",
            "Ships land. The chapel of the northern harbour opened late. Its first mass was read in 1820.",
            ["The chapel of the northern harbour opened late.", "Its first mass was read in 1820."],
        ),
    ],
    ids=["what it refers to", "the kind of answer that it lacks"],
)
def test_the_best_sentence_is_quoted_with_what_it_needs(query: str, text: str, quoted: list[str]) -> None:
    assert quotes(query, [numbered(1, text)]) == quoted


# A reader has its say.


def doubting(_question: str, texts: Sequence[str]) -> Sequence[float]:
    return [-9.0] * len(texts)


def sure(_question: str, texts: Sequence[str]) -> Sequence[float]:
    return [9.0] * len(texts)


def test_what_a_reader_doubts_is_refused_unless_the_rules_are_sure() -> None:
    doubtful = "How long are the backups of the gateway kept in storage?"
    assert answers(doubtful, [BACKUP]).extracts
    assert answers(doubtful, [BACKUP], answerability=doubting).extracts == ()
    certain = "How long are backups kept in object storage?"
    assert answers(certain, [BACKUP], answerability=doubting).extracts
    assert (
        answers(certain, [BACKUP], answerability=doubting).likelihood
        < answers(certain, [BACKUP], answerability=sure).likelihood
    )


def test_a_sure_reader_answers_what_shares_few_words_and_nothing_that_shares_none() -> None:
    rephrased = "For what time do nightly backups remain available to administrators?"
    assert answers(rephrased, [BACKUP]).extracts == ()
    assert answers(rephrased, [BACKUP], answerability=sure).extracts
    assert answers("Who won the Super Bowl in 1998?", [BACKUP], answerability=sure).extracts == ()


def test_a_reader_reads_what_stands_around_the_sentences_to_quote() -> None:
    read: list[str] = []

    def record(_question: str, texts: Sequence[str]) -> Sequence[float]:
        read.extend(texts)
        return [0.0] * len(texts)

    filler = " ".join(f"Paragraph {number} tells of other things." for number in range(60))
    long = numbered(5, f"{filler} {BACKUP.text} {filler}")
    assert answers("How long are backups kept?", [long], answerability=record).extracts
    (text,) = read
    assert BACKUP.text in text
    assert len(BACKUP.text) < len(text) <= 620


@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("How long are backups kept?", "Sicherungen werden 30 Tage lang aufbewahrt und dann gelöscht."),
        ("Wie lange werden Sicherungen aufbewahrt?", BACKUP.text),
    ],
)
def test_a_reader_of_one_language_does_not_judge_between_two(query: str, passage: str) -> None:
    passages = [numbered(1, passage)]
    assert answers(query, passages, answerability=doubting) == answers(query, passages)


def test_a_word_within_another_word_is_not_that_word() -> None:
    form = numbered(1, "Type the street into the field for the address.", title="Form")
    desks = numbered(2, "Microcomputers are bought by the buyers.", title="Devices")
    assert answers("Which dress is worn?", [form]).extracts == ()
    assert answers("Who buys a computer?", [desks]).extracts


def test_the_address_of_a_link_does_not_say_what_a_sentence_tells() -> None:
    links = numbered(
        1, "See [our page](https://example.org/torque-of-the-pump-cover). Or call us.", title="Help"
    )
    assert answers("Which torque has the pump cover?", [links]).extracts == ()


def test_a_difference_is_told_by_what_is_said_of_each_thing_alone() -> None:
    leave = numbered(
        1,
        "You may take unpaid leave as the primary or secondary caregiver. "
        "As the primary caregiver you have 16 weeks of leave. "
        "As the secondary caregiver you have 6 weeks of leave.",
        title="Leave",
    )
    query = "What is the difference between primary and secondary caregiver leave?"
    assert quotes(query, [leave]) == [
        "As the primary caregiver you have 16 weeks of leave.",
        "As the secondary caregiver you have 6 weeks of leave.",
    ]
