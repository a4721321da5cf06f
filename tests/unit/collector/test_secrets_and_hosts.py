"""A secret goes only to the hosts that its operator names."""

import re
from pathlib import Path
from typing import Any

import pytest
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_collector.adapters.registry import kind_of
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.webhooks import WebhookSender
from groundline_collector.ports import UndeliveredError
from groundline_runtime.errors import FailedPreconditionError

ELSEWHERE = "is not for the host 'evil.example'"


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    (tmp_path / "support").mkdir()
    (tmp_path / "support/token").write_text("hidden\n")
    (tmp_path / "support/token.hosts").write_text("git.example.com\nMail.example.com\n")
    (tmp_path / "support/free").write_text("open\n")
    return Secrets(tmp_path)


def test_a_bound_secret_goes_to_its_hosts_alone(secrets: Secrets) -> None:
    assert secrets.read("support", "token", "GIT.example.com") == "hidden"
    assert secrets.read("support", "token", "mail.example.com") == "hidden"
    for host in ("evil.example", "git.example.com.evil.example", ""):
        with pytest.raises(FailedPreconditionError, match="is not for the host") as refused:
            secrets.read("support", "token", host)
        assert refused.value.reason == "SOURCE_NOT_AVAILABLE"
    assert secrets.read("support", "free", "anywhere.example") == "open"


def test_a_list_of_hosts_that_cannot_be_read_lets_it_go_nowhere(secrets: Secrets, tmp_path: Path) -> None:
    (tmp_path / "support/token.hosts").write_bytes(b"\xff")
    with pytest.raises(FailedPreconditionError, match="is not for the host"):
        secrets.read("support", "token", "git.example.com")


@pytest.mark.parametrize(
    "kind",
    [
        {"s3": source_pb2.S3Source(endpoint_url="https://evil.example:9000")},
        {"git": source_pb2.GitSource(url="https://git.example.com@evil.example/a.git")},
        {"feed": source_pb2.FeedSource(url="https://evil.example/git.example.com")},
        {"imap": source_pb2.ImapSource(host="evil.example")},
    ],
    ids=lambda kind: next(iter(kind)),
)
def test_the_host_is_the_one_that_the_source_connects_to(kind: dict[str, Any], secrets: Secrets) -> None:
    described, asked = kind_of(source_pb2.DocumentSource(**kind))
    host = described.secret_host(asked)
    with pytest.raises(FailedPreconditionError, match=re.escape(ELSEWHERE)):
        secrets.require("support", "token", host)


async def test_a_webhook_elsewhere_is_signed_with_no_bound_secret(secrets: Secrets) -> None:
    sender = WebhookSender(secrets, private_addresses=False)
    notice = pb.SendNoticeRequest(collection_id="support", secret="token", url="https://evil.example/hook")
    with pytest.raises(UndeliveredError, match=re.escape(ELSEWHERE)):
        await sender.send(notice)
