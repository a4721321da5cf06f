"""What is read out of what was handed in, and what is refused."""

import pytest
from groundline_ingestor.adapters.extraction import MARKDOWN, PLAIN, TextExtractor
from groundline_ingestor.domain import DocumentInput, Heading, IngestionError, IngestionState

EXTRACTOR = TextExtractor()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (DocumentInput(""), "EMPTY_TEXT"),
        (DocumentInput(" \r\n\t"), "EMPTY_TEXT"),
        (DocumentInput(b""), "EMPTY_TEXT"),
        (DocumentInput(b"\xef\xbb\xbf"), "EMPTY_TEXT"),
        (DocumentInput("a\x00b"), "INVALID_TEXT"),
        (DocumentInput(b"a\x00b"), "INVALID_TEXT"),
        (DocumentInput(b"caf\xe9 au lait"), "INVALID_ENCODING"),
        (DocumentInput(b"\xff\xfea"), "INVALID_ENCODING"),
        (DocumentInput("text", mime_type="application/pdf"), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"%PDF-1.7 ..."), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"PK\x03\x04rest", uri="notes.txt"), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"<p>text</p>", uri="page.html"), "UNSUPPORTED_TYPE"),
        (DocumentInput(b"a,b\n1,2", uri="table.csv"), "UNSUPPORTED_TYPE"),
    ],
)
def test_what_holds_no_usable_text_fails_while_extracting(given: DocumentInput, reason: str) -> None:
    with pytest.raises(IngestionError) as raised:
        EXTRACTOR.extract(given)
    assert raised.value.failure.stage is IngestionState.EXTRACTING
    assert raised.value.failure.reason == reason


@pytest.mark.parametrize(
    ("given", "mime_type"),
    [
        (DocumentInput("text"), PLAIN),
        (DocumentInput("text", uri="docs/guide.md"), MARKDOWN),
        (DocumentInput("text", uri="https://example.org/guide.MD?raw=1#top"), MARKDOWN),
        (DocumentInput("text", uri="guide.md", mime_type="text/plain; charset=utf-8"), PLAIN),
        (DocumentInput("text", mime_type="Text/X-Markdown"), MARKDOWN),
        (DocumentInput("<p>text", uri="page.html"), PLAIN),
        (DocumentInput(b"fn main() {}", uri="main.rs"), PLAIN),
    ],
)
def test_the_type_is_the_one_given_else_by_name_and_content(given: DocumentInput, mime_type: str) -> None:
    assert EXTRACTOR.extract(given).mime_type == mime_type


@pytest.mark.parametrize(
    "content", ["\ufeffa\r\nb", "a\r\nb".encode("utf-8-sig"), "a\r\nb".encode("utf-16"), b"a\r\nb"]
)
def test_a_byte_order_mark_is_no_text_and_line_ends_stay(content: str | bytes) -> None:
    assert EXTRACTOR.extract(DocumentInput(content)).text == "a\r\nb"


def headings(text: str) -> list[tuple[int, str]]:
    found = EXTRACTOR.extract(DocumentInput(text, mime_type=MARKDOWN)).headings
    return [(heading.level, heading.title) for heading in found]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```",
        "~~~sh\n# no\n~~~",
        "    # no",
        "> # no",
        "- # no",
        "#no",
        "\\# no",
        "<!--\n# no\n-->",
        "---\ntitle: no\n# no\n---\n\ntext",
        "---\r\ntitle: no\r\n---\r\ntext",
        "#\n\ntext",
    ],
)
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert headings(text) == []


def test_headings_are_plain_text() -> None:
    assert headings("# A *b* `c_d` [e](http://x) &amp; \\# ![f](g) <br> #\n\nSet\next\n===\n\n   ### h") == [
        (1, "A b c_d e & # f"),
        (1, "Set ext"),
        (3, "h"),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_heading_begins_at_its_mark(line_end: str) -> None:
    text = line_end.join(["😀 text", "", "  ## Two", "", "Three", "---", ""])
    found = EXTRACTOR.extract(DocumentInput(text, mime_type=MARKDOWN)).headings
    assert found == (Heading(2, "Two", text.index("##")), Heading(2, "Three", text.index("Three")))


def test_an_unclosed_front_matter_is_read_in_time() -> None:
    assert headings("---\n" + "\r" * 50_000 + "# One") == [(1, "One")]
