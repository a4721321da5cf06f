"""The reference of the API says all that the contract says."""

from inspect import cleandoc

import pytest
import reference
from groundline.v1 import error_pb2
from groundline_validation.rules import rules_of


@pytest.fixture(scope="module")
def page() -> str:
    return reference.reference()


def section(page: str, heading: str) -> str:
    """Return the text from a heading to the next."""
    return page.partition(f"\n{heading}\n")[2].partition("\n#")[0]


def test_a_method_has_its_binding_and_its_status_codes(page: str) -> None:
    chat = section(page, "### CoordinatorService.Chat")
    assert "[ChatRequest](#chatrequest) → stream of [ChatResponse](#chatresponse)" in chat
    assert "`POST /api/chat`" in chat
    assert "INVALID_ARGUMENT: a field is wrong" in chat


def test_a_field_has_its_limits_and_its_default(page: str) -> None:
    limit = next(
        line
        for line in section(page, "### RetrievalOptions").splitlines()
        if line.startswith("| `keyword_limit`")
    )
    assert "| int32, optional | 1 to 1000; default `50` |" in limit
    assert "| `query` | string | 1 to 8000 characters |" in section(page, "### SearchRequest")


def test_a_rule_between_fields_is_said_with_its_message(page: str) -> None:
    (rule,) = rules_of("groundline.v1.ChunkingSettings")
    assert f"Rule: {cleandoc(str(rule.__doc__))}" in section(page, "### ChunkingSettings")
    assert "Rule: None" not in page


def test_every_error_reason_is_in_the_table_with_its_meaning(page: str) -> None:
    rows = section(page, "## Error reasons").splitlines()
    shown = {row.split("`")[1]: row.split("|")[2].strip() for row in rows if row.startswith("| [`")}
    assert set(shown) == set(error_pb2.ErrorReason.keys()) - {"ERROR_REASON_UNSPECIFIED"}
    assert all(shown.values())


def test_every_link_leads_to_a_heading(page: str) -> None:
    headings = {
        line.lstrip("# ").lower().replace(".", "").replace(" ", "-")
        for line in page.splitlines()
        if line.startswith("#")
    }
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert links
    assert links <= headings
