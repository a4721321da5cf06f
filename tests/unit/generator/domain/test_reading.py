from groundline.v1 import generator_service_pb2 as pb
from groundline_generator.domain.reading import read
from groundline_generator.domain.segments import Kind

PASSAGE = pb.NumberedPassage(text="Die Häuser sind alt. Das Haus ist neu.")


def test_a_text_is_cut_into_sentences_with_their_terms() -> None:
    sentences = read(PASSAGE).sentences("german")
    assert [(each.text, each.terms) for each in sentences] == [
        ("Die Häuser sind alt.", ["haus", "alt"]),
        ("Das Haus ist neu.", ["haus", "neu"]),
    ]


def test_a_text_may_be_read_as_another_language() -> None:
    assert read(PASSAGE).language == "german"
    assert "häuser" in read(PASSAGE).terms(None)
    assert "häuser" not in read(PASSAGE).terms("german")


def test_only_short_texts_are_remembered() -> None:
    long = pb.NumberedPassage(text="word " * 10_000)
    assert read(PASSAGE) is read(PASSAGE)
    assert read(long) is not read(long)


def test_a_text_that_begins_within_a_table_has_the_columns_that_its_context_names() -> None:
    header = "| Role | Duty | Pay |"
    passage = pb.NumberedPassage(text="| Clerk | Files letters | 40 |", context=f"Roles > All\n{header}")
    (row,) = read(passage).sentences("english")
    assert (row.segment.kind, row.segment.columns) == (Kind.ROW, header)
