"""Refusals as they are read and shown, and text that a terminal may be shown."""

import json

import pytest
from groundline_cli.errors import ApiError, FieldViolation
from groundline_cli.terminal import print_columns, print_json, printable, summary
from hypothesis import given
from hypothesis import strategies as st

TYPE = "type.googleapis.com/google.rpc."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "HTTP 502 Bad Gateway"),
        ("<html>\n  bad\tgateway </html>", "HTTP 502 Bad Gateway: <html> bad gateway </html>"),
        ("[1]", "HTTP 502 Bad Gateway: [1]"),
        ('{"detail": "x"}', 'HTTP 502 Bad Gateway: {"detail": "x"}'),
        ('{"code": 14, "message": ""}', "HTTP 502 Bad Gateway"),
        ('{"code": "x", "message": "m", "details": [3, {"@type": 5}], "x": null}', "m"),
    ],
)
def test_whatever_answers_makes_a_readable_error(body: str, message: str) -> None:
    error = ApiError.from_response(502, body)
    assert str(error) == message
    assert error.http_status == 502


def test_a_long_page_of_some_proxy_is_cut() -> None:
    assert len(str(ApiError.from_response(599, "x" * 5000))) < 250


def test_every_wrong_field_is_shown() -> None:
    details = [
        {"@type": TYPE + "ErrorInfo", "reason": "INVALID_FIELDS", "metadata": {"error_id": "e-1"}},
        {
            "@type": TYPE + "BadRequest",
            "fieldViolations": [
                {"field": "query", "description": "must not be empty"},
                {"field": "chat_history[2].role", "description": "must be user or assistant"},
            ],
        },
        {"@type": TYPE + "RetryInfo", "retryDelay": "1.500s"},
    ]
    error = ApiError.from_response(400, json.dumps({"code": 3, "message": "wrong", "details": details}))
    assert str(error).splitlines() == [
        "wrong (INVALID_FIELDS)",
        "  query: must not be empty",
        "  chat_history[2].role: must be user or assistant",
        "  error id: e-1",
    ]
    assert (error.code, error.retry_after_seconds) == (3, 1.5)


def test_a_message_that_names_the_field_is_not_repeated() -> None:
    violations = (FieldViolation("query", "must not be empty"),)
    error = ApiError("query: must not be empty", reason="INVALID_REQUEST", violations=violations)
    assert str(error) == "query: must not be empty (INVALID_REQUEST)"


def test_the_event_that_ends_a_chat_is_an_error_like_others() -> None:
    event = {"code": 14, "reason": "DOWN", "message": "later", "errorId": "e", "violations": [{"field": "a"}]}
    error = ApiError.from_event(event)
    assert (error.code, error.reason, error.error_id) == (14, "DOWN", "e")
    assert error.violations == (FieldViolation("a", ""),)


def test_nothing_in_a_text_commands_the_terminal() -> None:
    assert (
        printable("a\x1b[31mb\x9b2Jc\r\x07\x7f\u202ed\udc80")
        == "a\ufffd[31mb\ufffd2Jc" + "\ufffd" * 4 + "d\ufffd"
    )
    assert printable("line\n\tindented Größe 🐟") == "line\n\tindented Größe 🐟"


@given(st.text())
def test_what_is_printable_can_be_encoded_and_stays_so(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert printable(shown) == shown
    assert len(shown) == len(text)


def test_a_summary_ends_with_a_whole_word() -> None:
    assert summary(" one\n two  three ", length=8) == "one two…"
    assert summary("one two", length=7) == "one two"


def test_json_is_one_line_of_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "ü\x9b\n"})
    assert capsys.readouterr().out == '{"a": "\\u00fc\\u009b\\n"}\n'


def test_columns_are_aligned_and_hold_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("NAME", "N", "X"), [("a\x1b\nb", 5, 0.5), ("long name", 1234, 0.25)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME          N      X",
        "a\ufffd b          5  0.500",
        "long name  1234  0.250",
    ]
    print_columns(("NAME",), [])
    assert capsys.readouterr().out == ""
