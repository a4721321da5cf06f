from groundline_generator.domain.reading import read

TEXT = "Die Häuser sind alt. Das Haus ist neu."


def test_a_text_is_cut_into_sentences_with_their_terms() -> None:
    sentences = read(TEXT).sentences("german")
    assert [(each.text, each.terms) for each in sentences] == [
        ("Die Häuser sind alt.", ["haus", "alt"]),
        ("Das Haus ist neu.", ["haus", "neu"]),
    ]


def test_a_text_may_be_read_as_another_language() -> None:
    assert read(TEXT).language == "german"
    assert "häuser" in read(TEXT).terms(None)
    assert "häuser" not in read(TEXT).terms("german")


def test_only_short_texts_are_remembered() -> None:
    long = "word " * 10_000
    assert read(TEXT) is read(TEXT)
    assert read(long) is not read(long)
