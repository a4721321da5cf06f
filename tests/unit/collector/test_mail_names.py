"""Names and metadata of mails."""

import pytest
from groundline_collector.adapters.sources import mail
from groundline_collector.adapters.sources.mail import SeenMails, mail_document, mail_path
from groundline_runtime.errors import FailedPreconditionError


@pytest.mark.parametrize(
    ("header", "path"),
    [
        (b"Message-ID: <a.1@example.com>\r\n\r\n", "a.1@example.com"),
        (b"Message-Id:\n <folded@example.com>\n\n", "folded@example.com"),
        (b"message-id: <a b/../?c#d@example.com>\n\n", "a%20b%2F..%2F%3Fc%23d@example.com"),
        ("Message-ID: <ä@example.com>\n\n".encode(), "%EF%BF%BD%EF%BF%BD@example.com"),
    ],
)
def test_a_mail_is_called_by_its_message_id(header: bytes, path: str) -> None:
    assert mail_path(header) == path


@pytest.mark.parametrize(
    "header", [b"Subject: A\n\n", b"Message-ID: <>\n\n", b"Message-ID: <" + b"a" * 501 + b">\n\n", b"\n"]
)
def test_a_mail_without_a_message_id_is_called_by_its_header(header: bytes) -> None:
    assert len(mail_path(header)) == 64
    assert mail_path(header) != mail_path(header + b"X: 1\n")


def test_headers_are_decoded_where_that_is_possible() -> None:
    content = (
        b"Subject: =?utf-8?q?=C3=84nderung?= now\nFrom: =?no-such-charset?q?Ann?= <ann@example.com>\n"
        b"To: =?utf-8?b?broken\nDate: some day\n\nText"
    )
    document = mail_document((content,), content, uri="mid:1", folder="INBOX")
    assert document.title == "Änderung now"
    assert document.metadata == {
        "folder": "INBOX",
        "from": "=?no-such-charset?q?Ann?= <ann@example.com>",
        "to": "=?utf-8?b?broken",
    }


def test_a_run_keeps_count_of_so_many_mails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "MAX_MAILS", 2)
    seen = SeenMails()
    assert [seen.is_new(path) for path in ("a", "b", "a")] == [True, True, False]
    with pytest.raises(FailedPreconditionError):
        seen.is_new("c")
