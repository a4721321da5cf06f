"""Notices to webhooks: keys and signatures."""

import base64

import pytest
from groundline_collector.adapters.webhooks import signature_of, signing_key


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "hunter2",
        "whsec_not base64!",
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
    ],
)
def test_a_secret_that_is_no_key_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="must be whsec_ and 24 to 64 bytes in base64") as caught:
        signing_key(secret)
    assert not secret or secret not in str(caught.value)


def test_a_key_may_come_without_its_prefix_and_with_a_line_end() -> None:
    key = b"k" * 32
    encoded = base64.b64encode(key).decode()
    assert signing_key(f"whsec_{encoded}\n") == signing_key(encoded) == key


def test_a_signature_is_that_of_the_published_example_of_standard_webhooks() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = signature_of(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
