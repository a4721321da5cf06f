"""Sources of mail: accounts on a real server, and mbox files."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from groundline_tests.ingestor.mail_server import DOVECOT, PASSWORD, USER, MailServer, mail_server
from groundline_tests.ingestor.sources import create, documents, first_run, mail, run, text_of
from groundline_tests.listening import listening
from groundline_tests.programs import needs_program


@pytest.fixture(scope="module")
def dovecot() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
def mailbox(
    dovecot: MailServer, collection_id: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> MailServer:
    """An account without mails, whose server's certificate is trusted, and whose password is a secret."""
    dovecot.clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.certificate))
    (secrets / collection_id / "mail").write_text(f"{PASSWORD}\n")
    return dovecot


def imap(server: MailServer, **chosen: Any) -> dict[str, Any]:
    account = {"port": server.tls_port, "username": USER, "passwordSecret": "mail", **chosen}
    return {"imap": {"host": "localhost", **account}, "uriPrefix": "mid:"}


needs_dovecot = needs_program("dovecot-imapd", found=DOVECOT is not None)


@needs_dovecot
async def test_mails_of_an_account_are_followed(stub: Any, collection_id: str, mailbox: MailServer) -> None:
    leave, pay, plan, tea = (f"mid:{name}@example.com" for name in ("leave", "pay", "plan", "tea"))
    with_table = mail("leave", "Everybody has twenty-seven days.")
    with_table.add_attachment("name,days\nBob,31\n", subtype="csv", filename="days.csv")
    mailbox.put("INBOX", with_table)
    mailbox.put("INBOX", mail("pay", "At the end of the month."))
    mailbox.put("Projects.Alpha", mail("plan", "First things first."))
    mailbox.put("Projects.Alpha", with_table)
    mailbox.put("Junk", mail("prize", "You have won."))
    source_id = await create(stub, collection_id, imap(mailbox))
    table = f"{leave}!/days.csv"
    created = dict.fromkeys((leave, table, pay, plan), "CREATED")
    assert await first_run(stub, collection_id, source_id) == created
    found = await documents(stub, collection_id)
    assert (found[leave].title, json_format.MessageToDict(found[leave].metadata)) == (
        "About leave",
        {
            "folder": "INBOX",
            "message_id": "<leave@example.com>",
            "from": "Änne <ann@example.com>",
            "to": "bob@example.com",
            "date": "2026-11-02T09:00:00Z",
        },
    )
    assert found[plan].metadata["folder"] == "Projects/Alpha"
    assert "twenty-seven" in await text_of(stub, found[leave])
    assert "Bob" in await text_of(stub, found[table])
    assert (found[table].container_uri, found[table].metadata) == (leave, found[leave].metadata)
    assert await run(stub, collection_id, source_id) == {}

    mailbox.delete("INBOX", "pay@example.com")
    mailbox.move("Projects.Alpha", "plan@example.com", "INBOX")
    mailbox.put("INBOX", mail("tea", "Too cold."))
    assert await run(stub, collection_id, source_id) == {plan: "UPDATED", tea: "CREATED"}
    found = await documents(stub, collection_id)
    assert set(found) == {leave, table, plan, tea}
    assert found[plan].metadata["folder"] == "INBOX"


@needs_dovecot
async def test_a_mail_folder_whose_uids_are_new_brings_nothing_twice(
    stub: Any, collection_id: str, mailbox: MailServer
) -> None:
    nameless = mail("unnamed", "It has no Message-ID.")
    del nameless["Message-ID"]
    mails = [mail("leave", "Everybody has twenty-seven days."), nameless]
    for one in mails:
        mailbox.put("Archive", one)
    source_id = await create(stub, collection_id, imap(mailbox))
    assert set((await first_run(stub, collection_id, source_id)).values()) == {"CREATED"}
    before = await documents(stub, collection_id)
    mailbox.renew("Archive")
    for one in reversed(mails):
        mailbox.put("Archive", one)
    assert await run(stub, collection_id, source_id) == {}
    assert await documents(stub, collection_id) == before


@needs_dovecot
async def test_folders_of_mail_are_chosen_by_patterns_and_read_after_starttls(
    stub: Any, collection_id: str, mailbox: MailServer
) -> None:
    for folder in ("INBOX", "Junk", "Projects.Alpha", "Projects.Alpha.Old"):
        mailbox.put(folder, mail(folder, "First things first."))
    source = imap(mailbox, port=mailbox.starttls_port, starttls=True)
    patterns = {"includePaths": ["Projects/**", "Junk"], "excludePaths": ["**/Old"]}
    source_id = await create(stub, collection_id, source | patterns)
    assert await first_run(stub, collection_id, source_id) == {
        "mid:Projects.Alpha@example.com": "CREATED",
        "mid:Junk@example.com": "CREATED",
    }


@needs_dovecot
async def test_a_mail_server_that_refuses_or_is_not_the_one_it_says_fails_the_run(
    stub: Any, collection_id: str, mailbox: MailServer, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secrets / collection_id / "wrong").write_text("wrong")
    mailbox.put("INBOX", mail("leave", "Everybody has twenty-seven days."))
    wrong = await create(stub, collection_id, {"name": "wrong", **imap(mailbox, passwordSecret="wrong")})
    assert await first_run(stub, collection_id, wrong) == {"wrong": "SOURCE_REFUSED"}
    source_id = await create(stub, collection_id, imap(mailbox))
    await first_run(stub, collection_id, source_id)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
    assert len(await documents(stub, collection_id)) == 1


async def test_a_mail_server_whose_answer_has_no_end_fails_the_run(
    stub: Any, collection_id: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secrets / collection_id / "mail").write_text(PASSWORD)
    monkeypatch.setattr("groundline_collector.adapters.sources.imap.MAX_ANSWER_BYTES", 10_000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"* OK still there\r\n")
                await writer.drain()

    async with listening(answer) as port:
        account = {"host": "localhost", "port": port, "username": USER, "passwordSecret": "mail"}
        source_id = await create(stub, collection_id, {"imap": {**account, "starttls": True}})
        assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


async def test_the_mails_of_mbox_files_are_followed(stub: Any, collection_id: str, shared: Path) -> None:
    folder = shared / "mail"
    (folder / "2026").mkdir(parents=True)
    leave, pay, plan, tea = (f"handbook/{name}@example.com" for name in ("leave", "pay", "plan", "tea"))

    def write(name: str, *mails: EmailMessage) -> None:
        parts = [b"From ann@example.com Mon Nov  2 10:00:00 2026\n" + one.as_bytes() + b"\n" for one in mails]
        (folder / name).write_bytes(b"".join(parts))

    first = mail("leave", "Dear all,\nFrom now on everybody has twenty-seven days.")
    second = mail("pay", "At the end of the month.")
    second.add_attachment("Month,Day\nMay,29\n", subtype="csv", filename="days.csv")
    second.add_attachment(b"\x7fELF", maintype="application", subtype="x-elf", filename="pay.exe")
    write("inbox", first, second)
    write("2026/november.mbox", mail("plan", "First things first."), first)
    (folder / "notes.txt").write_text("Not a mail.")
    source_id = await create(stub, collection_id, {"mbox": {"path": str(folder)}})
    created = dict.fromkeys((leave, pay, f"{pay}!/days.csv", plan), "CREATED")
    assert await first_run(stub, collection_id, source_id) == {
        **created,
        f"{pay}!/pay.exe": "UNSUPPORTED_TYPE",
    }
    found = await documents(stub, collection_id)
    assert set(found) == set(created), "an unreadable file must not become a document"
    assert "29" in await text_of(stub, found[f"{pay}!/days.csv"])
    assert found[leave].metadata["folder"] == "inbox"
    assert found[plan].metadata["folder"] == "2026/november.mbox"
    assert "From now on everybody" in await text_of(stub, found[leave])
    assert await run(stub, collection_id, source_id) == {}

    write("inbox", mail("tea", "Too cold."), first)
    assert await run(stub, collection_id, source_id) == {tea: "CREATED"}
    assert set(await documents(stub, collection_id)) == {leave, plan, tea}


async def test_a_file_that_is_no_mbox_fails_the_run(stub: Any, collection_id: str, shared: Path) -> None:
    (shared / "letter.txt").write_text("Dear all")
    source_id = await create(stub, collection_id, {"mbox": {"path": str(shared / "letter.txt")}})
    assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
