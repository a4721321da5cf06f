from dataclasses import replace
from typing import Any, Final

import pytest
from groundline_evidence import EvidenceError, KeyPair, sign, verify

KEY: Final = KeyPair.of(bytes(range(32)))
VALUES: Final[dict[str, Any]] = {
    "format": "groundline/evidence/1",
    "issueTime": "2026-06-01T12:00:00Z",
    "answers": [{"text": "Größe 1,8 Nm — “quoted” \u2028 🦊", "score": 0.30000001192092896, "is": False}],
}
DOCUMENT: Final = sign(VALUES, KEY)


def test_what_was_signed_is_read_back() -> None:
    found = verify(DOCUMENT, [KeyPair.new().jwk(), KEY.jwk()])
    assert found.values == VALUES
    assert found.key_id == KEY.key_id


def test_a_change_of_any_byte_is_found() -> None:
    for place in range(len(DOCUMENT)):
        for changed in (DOCUMENT[place] ^ 1, DOCUMENT[place] ^ 0x20):
            forged = DOCUMENT[:place] + bytes([changed]) + DOCUMENT[place + 1 :]
            with pytest.raises(EvidenceError):
                verify(forged, [KEY.jwk()])


def test_a_byte_more_or_less_at_any_place_is_found() -> None:
    for place in range(len(DOCUMENT) + 1):
        for forged in (
            DOCUMENT[:place] + b" " + DOCUMENT[place:],
            DOCUMENT[:place] + DOCUMENT[place + 1 :] if place < len(DOCUMENT) else DOCUMENT + b"\n",
        ):
            with pytest.raises(EvidenceError):
                verify(forged, [KEY.jwk()])


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"signature":1}',
        b'{"signature":"a.b.c"}',
        b'{"signature":"e30..AA"}',
        b'{"a":NaN,"signature":""}',
        b"[" * 100_000,
        b"9" * 10_000,
        b'{"signature":"a..b","x":' + b"9" * 400 + b"}",
        DOCUMENT.replace(b"{", b'{"answers":[],', 1),
    ],
)
def test_what_is_no_signed_document_is_refused(document: bytes) -> None:
    with pytest.raises(EvidenceError):
        verify(document, [KEY.jwk()])


def test_a_key_that_is_not_given_is_named() -> None:
    with pytest.raises(EvidenceError, match=KEY.key_id):
        verify(DOCUMENT, [KeyPair.new().jwk()])


@pytest.mark.parametrize(
    "other",
    [
        KeyPair.new().jwk(),
        {**KEY.jwk(), "x": "AAAA"},
        {**KEY.jwk(), "x": None},
        {**KEY.jwk(), "kty": "RSA"},
        {**KEY.jwk(), "crv": "X25519"},
    ],
)
def test_another_key_under_the_name_of_the_right_one_does_not_fit(other: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match="does not fit these contents"):
        verify(DOCUMENT, [{**other, "kid": KEY.key_id}])


@pytest.mark.parametrize(
    ("times", "holds"),
    [
        ({"createTime": "2026-05-31T00:00:00Z"}, True),
        ({"createTime": "2026-05-31T00:00:00Z", "retireTime": "2026-06-01T12:00:00.5Z"}, True),
        ({"createTime": "2026-05-31T00:00:00Z", "retireTime": "2026-06-01T11:59:59Z"}, False),
        ({"createTime": "2026-06-01T12:00:01Z"}, False),
    ],
)
def test_a_key_signs_only_while_it_is_in_use(times: dict[str, str], holds: bool) -> None:
    keys = [{**KEY.jwk(), **times}]
    if holds:
        verify(DOCUMENT, keys)
        return
    with pytest.raises(EvidenceError, match="not in use"):
        verify(DOCUMENT, keys)


def test_what_json_lacks_is_not_signed() -> None:
    with pytest.raises(ValueError, match=r"."):
        sign({"score": float("inf")}, KEY)


@pytest.mark.parametrize(
    "number", [2**53 - 1, 2**53, 12345678901234567890, 10**21, -(10**30), 1e300, 0.1, -0.0]
)
def test_every_number_of_json_is_signed(number: float) -> None:
    signed = sign({"number": number}, KEY)
    assert verify(signed, [KEY.jwk()]).values["number"] == float(number)


def test_a_private_key_is_not_shown() -> None:
    assert KEY.private_key.hex() not in repr(KEY)
    assert repr(KEY.private_key) not in repr(replace(KEY))


def test_a_key_is_named_by_its_thumbprint() -> None:
    # The example of RFC 8037, appendix A.
    private = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = KeyPair.of(private)
    assert key.jwk()["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert key.key_id == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
