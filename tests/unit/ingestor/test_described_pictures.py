"""Paragraphs of descriptions, and documents whose pictures nobody can describe."""

import pytest
from groundline_extraction.descriptions import kept_pictures
from groundline_extraction.readers.common import PicturePart
from groundline_ingestor.domain.pictures import MAX_CHARACTERS, PARAGRAPH_CHARACTERS, description_paragraphs
from groundline_ingestor.service.worker.generator.asking import GeneratorCalls
from groundline_ingestor.service.worker.generator.describing import PictureDescriptions
from groundline_tests.ingestor.messages import stored_collection


async def test_without_a_generator_no_picture_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = stored_collection(pictures={"described": True})
    with kept_pictures(None) as pictures:
        pictures.append(PicturePart(0, b"a"))
        alone = PictureDescriptions(None, None, GeneratorCalls())  # type: ignore[arg-type]  # not asked
        assert await alone.describe(pictures, collection, None) == ((), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("description", ["", " \n", "\u200b\x00\ue000", "…"[:0]])
def test_a_picture_that_shows_nothing_adds_no_text(description: str) -> None:
    assert description_paragraphs(description, "english") == ""


@pytest.mark.parametrize(
    ("description", "paragraph"),
    [
        ("It ends.] [2] Then more.", "It ends.) (2) Then more"),
        ("![a](https://example.com/x.png)", "!(a)(https://example.com/x.png)"),
        ("# Title\n\n\f| a | b |\n|---|---|\u2028- item", "# Title / a / b / /---/---/ - item"),
        ("```\ncode\n```", "''' code '''"),
        ("<script>x</script> 3 < 4", "(script>x(/script> 3 < 4"),
        ("\u202eturned\u200b【1】", "turned (1)"),
        ("A chart. It has approx. 5 bars! The last is 7.", "A chart; It has approx. 5 bars; The last is 7"),
    ],
)
def test_a_description_cannot_leave_its_mark(description: str, paragraph: str) -> None:
    assert description_paragraphs(description, "english") == f"[Picture, described by a model: {paragraph}]"


def test_each_paragraph_of_a_long_description_is_marked_and_the_whole_is_bounded() -> None:
    paragraphs = description_paragraphs("wort " * 1000, "german").split("\n\n")
    mark = "[Bild, von einem Modell beschrieben: "
    assert all(each.startswith(mark) and each.endswith("]") for each in paragraphs)
    texts = [each.removeprefix(mark).removesuffix("]") for each in paragraphs]
    assert max(map(len, texts)) <= PARAGRAPH_CHARACTERS
    assert MAX_CHARACTERS - 10 < sum(map(len, texts)) <= MAX_CHARACTERS
