"""Front matter of Markdown documents."""

import io
from typing import Any

import pytest
from groundline_extraction.documents import FileContent, GivenDocument
from groundline_extraction.front_matter import front_matter

ALIASES = "a: &a [x, x]\nb: [*a, *a, *a]"


def of(block: str, **fields: Any) -> Any:
    return front_matter(GivenDocument(f"---\n{block}\n---\ntext", **{"uri": "a.md", **fields}))


@pytest.mark.parametrize(
    "block",
    [
        "",
        "- a list",
        "just words",
        "a: [",
        "a: b: c",
        "a: '\0'",
        "when: 2024-13-45",
        "!!python/object/apply:os.system ['true']",
        ALIASES,
        "[" * 16_000,
        "a: " + "x" * 20_000,
    ],
)
def test_what_cannot_be_read_says_nothing(block: str) -> None:
    assert of(block) == {}


def test_members_are_json_values() -> None:
    block = (
        "title: Leave\nyear: 2024\nratio: 0.5\nbig: 123456789012345678901\nnan: .nan\ndraft: no\nnone:\n"
        "since: 2024-05-01\nat: 2024-05-01T09:00:00Z\ntags: [a, 2]\nowner: {team: red}\n7: seven\n"
        'nul: "a\\0b"'
    )
    assert of(block) == {
        "title": "Leave",
        "year": 2024,
        "ratio": 0.5,
        "big": "123456789012345678901",
        "nan": "nan",
        "draft": False,
        "none": None,
        "since": "2024-05-01",
        "at": "2024-05-01T09:00:00+00:00",
        "tags": ["a", 2],
        "owner": {"team": "red"},
        "7": "seven",
        "nul": "ab",
    }


def test_what_is_nested_too_deep_is_its_text() -> None:
    found = of("a: " + "{b: " * 20 + "1" + "}" * 20)
    depth = 0
    while isinstance(found, dict):
        found, depth = next(iter(found.values())), depth + 1
    assert (depth, isinstance(found, str)) == (8, True)


def test_only_markdown_has_it_and_only_at_its_beginning() -> None:
    assert of("a: 1") == {"a": 1}
    assert of("a: 1", uri="a.txt") == {}
    assert of("a: 1", uri="a.txt", mime_type="text/markdown; charset=utf-8") == {"a": 1}
    assert of("a: 1", mime_type="text/plain") == {}
    assert front_matter(GivenDocument("text\n---\na: 1\n---\n", uri="a.md")) == {}


def test_bytes_and_files_are_read_as_texts_are() -> None:
    text = "\ufeff---\r\na: ä\r\n---\r\ntext"
    content = text.encode()
    assert front_matter(GivenDocument(content, uri="a.md")) == {"a": "ä"}
    file = FileContent(io.BytesIO(content), len(content))
    assert front_matter(GivenDocument(file, uri="a.md")) == {"a": "ä"}
    assert front_matter(GivenDocument(text.encode("utf-16"), uri="a.md")) == {}
    assert front_matter(GivenDocument("---\na: ä\n---\n".encode("latin-1"), uri="a.md")) == {}
