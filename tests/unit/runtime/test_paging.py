"""Pages: sizes and tokens."""

import pytest
from google.protobuf.message import Message
from groundline.v1 import ingestor_service_pb2
from groundline_runtime.context import Caller
from groundline_runtime.errors import InvalidArgumentError
from groundline_runtime.paging import PageTokens, page_size

TOKENS = PageTokens(bytes(range(32)))
ANN, BOB = Caller(("user:ann", "group:staff")), Caller(("user:bob", "group:staff"))
REQUEST = ingestor_service_pb2.ListDocumentsRequest(
    collection_id="docs", filter_json='{"team":"ops"}', order_by="title"
)
TOKEN = TOKENS.next_of(REQUEST, ANN, "Zebra", 7)
OTHER_KEYS = PageTokens(bytes(32)).next_of(REQUEST, ANN, "Zebra", 7)


def with_token(request: Message, token: str) -> Message:
    copy = type(request)()
    copy.CopyFrom(request)
    copy.page_token = token  # type: ignore[attr-defined]
    return copy


@pytest.mark.parametrize(("asked", "given"), [(0, 50), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_a_page_has_its_default_size_and_at_most_a_thousand_entries(asked: int, given: int) -> None:
    assert page_size(ingestor_service_pb2.ListJobsRequest(page_size=asked)) == given


@pytest.mark.parametrize(
    ("request_", "caller", "token"),
    [
        pytest.param(REQUEST, BOB, TOKEN, id="of another caller"),
        pytest.param(REQUEST, Caller(), TOKEN, id="of a caller, by nobody"),
        pytest.param(
            ingestor_service_pb2.ListChunksRequest(collection_id="docs"), ANN, TOKEN, id="of another RPC"
        ),
        pytest.param(
            ingestor_service_pb2.ListDocumentsRequest(
                collection_id="docs", filter_json='{"team":"hr"}', order_by="title"
            ),
            ANN,
            TOKEN,
            id="of another filter",
        ),
        pytest.param(
            ingestor_service_pb2.ListDocumentsRequest(
                collection_id="docs", filter_json='{"team":"ops"}', order_by="uri"
            ),
            ANN,
            TOKEN,
            id="of another order",
        ),
        pytest.param(REQUEST, ANN, OTHER_KEYS, id="of another key"),
        pytest.param(REQUEST, ANN, "WyJaZWJyYSIsN10", id="unsigned"),
        pytest.param(REQUEST, ANN, TOKEN[:-4], id="truncated"),
        pytest.param(REQUEST, ANN, TOKEN[:8], id="shorter than a signature"),
        pytest.param(REQUEST, ANN, TOKEN + "WyJh", id="lengthened"),
        pytest.param(REQUEST, ANN, TOKEN + "!", id="not base64"),
        pytest.param(REQUEST, ANN, "é", id="not ASCII"),
        pytest.param(REQUEST, ANN, "W" * 4000, id="long"),
    ],
)
def test_a_token_that_no_list_returned_is_refused(request_: Message, caller: Caller, token: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        TOKENS.key_in(with_token(request_, token), caller)

    assert [violation.field for violation in raised.value.violations] == ["page_token"]


@pytest.mark.parametrize("position", range(0, len(TOKEN) - 1, 5))
def test_a_token_that_was_changed_is_refused(position: int) -> None:
    other = "A" if TOKEN[position] != "A" else "B"
    changed = TOKEN[:position] + other + TOKEN[position + 1 :]

    with pytest.raises(InvalidArgumentError):
        TOKENS.key_in(with_token(REQUEST, changed), ANN)


def test_a_token_leads_on_where_its_page_ended_whatever_the_next_ones_size() -> None:
    request = with_token(REQUEST, TOKEN)
    assert isinstance(request, ingestor_service_pb2.ListDocumentsRequest)
    request.page_size = 3

    assert TOKENS.key_in(request, ANN) == ("Zebra", 7)
    assert TOKENS.next_of(request, ANN, "Zebra", 7) == TOKEN


def test_the_first_page_begins_nowhere() -> None:
    assert TOKENS.key_in(REQUEST, ANN) is None


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        PageTokens(b"secret")
