"""Refusals as they are read and shown."""

import json
from typing import Any

import pytest
from groundline_client import ApiError, Client, FieldViolation, GatewayError, UnsendableError
from groundline_client.models import ChatError, ErrorReason, FieldError
from groundline_client.transport import rpcs

TYPE = "type.googleapis.com/google.rpc."


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"$not": found}
    return found


@pytest.mark.parametrize(
    "gateway", ["", "localhost:8080", "http://", "http://[bad", "http://localhost:99999"]
)
def test_a_client_of_no_usable_address_is_not_made(gateway: str) -> None:
    with pytest.raises(UnsendableError, match="the gateway must be a URL"):
        Client(gateway, "key")


@pytest.mark.parametrize("api_key", ["ключ", "a\nb"])
def test_a_client_with_a_key_that_no_header_holds_is_not_made(api_key: str) -> None:
    with pytest.raises(UnsendableError, match="printable ASCII") as raised:
        Client("http://127.0.0.1:8080", api_key)
    assert api_key not in str(raised.value)


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
                {"field": "chatHistory[2].role", "description": "must be user or assistant"},
            ],
        },
        {"@type": TYPE + "RetryInfo", "retryDelay": "1.500s"},
    ]
    error = ApiError.from_response(400, json.dumps({"code": 3, "message": "wrong", "details": details}))
    assert str(error).splitlines() == [
        "wrong (INVALID_FIELDS)",
        "  query: must not be empty",
        "  chatHistory[2].role: must be user or assistant",
        "  error id: e-1",
    ]
    assert (error.code, error.retry_after_seconds) == (3, 1.5)


def test_a_message_that_names_the_field_is_not_repeated() -> None:
    violations = (FieldViolation("query", "must not be empty"),)
    error = ApiError("query: must not be empty", reason="INVALID_REQUEST", violations=violations)
    assert str(error) == "query: must not be empty (INVALID_REQUEST)"


def test_the_event_that_ends_a_chat_is_an_error_like_others() -> None:
    event = ChatError(
        code=14,
        reason=ErrorReason("DOWN"),
        message="later",
        error_id="e",
        retryable=True,
        violations=[FieldError(field="a")],
    )
    error = ApiError.from_event(event)
    assert (error.code, error.reason, error.error_id, error.retryable) == (14, "DOWN", "e", True)
    assert error.violations == (FieldViolation("a", ""),)


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), ("soon", None), ("Fri, 01 Jan 2021 00:00:00 GMT", 0)]
)
def test_the_header_says_when_to_come_if_the_body_does_not(header: str, seconds: float | None) -> None:
    assert ApiError.from_response(429, "busy", header).retry_after_seconds == seconds


def test_the_body_says_better_than_the_header_when_to_come_again() -> None:
    details = [{"@type": TYPE + "RetryInfo", "retryDelay": "0.5s"}]
    body = json.dumps({"code": 8, "message": "busy", "details": details})
    assert ApiError.from_response(429, body, "1").retry_after_seconds == 0.5


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"query": "x", "filter": {"year": float("nan")}}, "not JSON compliant: nan"),
        ({"query": "x", "filter": {"year": float("-inf")}}, "not JSON compliant: -inf"),
        ({"query": "caf\udce9"}, r"""'{"query":"caf\udce9"}' is not Unicode text"""),
        ({"query": "x", "filter": nested(100_000)}, "recursion"),
    ],
)
def test_what_json_cannot_hold_is_not_sent(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsendableError) as raised:
        rpcs.SEARCH.http_request(request_)
    assert message in str(raised.value)
    assert isinstance(raised.value, GatewayError)


@pytest.mark.parametrize(
    ("collection", "message"), [("", "collectionId is empty"), ("a\udcff", "'a\\udcff' is not Unicode text")]
)
def test_an_id_that_no_address_can_hold_is_not_sent(collection: str, message: str) -> None:
    """Without it, the statistics of "" are asked of a collection named "stats"."""
    with pytest.raises(UnsendableError) as raised:
        rpcs.GET_COLLECTION_STATS.http_request({"collectionId": collection})
    assert str(raised.value) == message
