"""A real mail server, Dovecot, with one account on a port of the loopback interface."""

import grp
import imaplib
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

DOVECOT: Final = shutil.which("dovecot", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
USER: Final = "ann@example.com"
PASSWORD: Final = "s3cret"

# Without chroot and users of its own, so that it needs no root.
_CONFIGURATION: Final = """
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
listen = 127.0.0.1
ssl = required
ssl_cert = <{folder}/certificate
ssl_key = <{folder}/key
disable_plaintext_auth = yes
default_login_user = {user}
default_internal_user = {user}
default_internal_group = {group}
first_valid_uid = 1
mail_location = maildir:{folder}/mail
mailbox_list_index = no
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/home
}}
namespace inbox {{
  inbox = yes
  separator = .
  mailbox Junk {{
    auto = create
    special_use = \\Junk
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {starttls_port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Ports by the way in which connections are encrypted; `certificate` is one that signed itself, for
    localhost."""

    tls_port: int
    starttls_port: int
    certificate: Path

    @contextmanager
    def account(self) -> Iterator[imaplib.IMAP4]:
        """Open the account as a mail program does."""
        context = ssl.create_default_context(cafile=self.certificate)
        with imaplib.IMAP4_SSL("localhost", self.tls_port, ssl_context=context) as client:
            client.login(USER, PASSWORD)
            yield client

    def clear(self) -> None:
        """Leave no mail in any folder."""
        with self.account() as client:
            _, listed = client.list()
            for line in listed:
                assert isinstance(line, bytes)
                self._expunge(client, line.decode().rsplit(" ", 1)[1], "ALL")

    def delete(self, folder: str, message_id: str) -> None:
        with self.account() as client:
            self._expunge(client, folder, f'HEADER Message-ID "{message_id}"')

    def move(self, folder: str, message_id: str, other: str) -> None:
        with self.account() as client:
            client.select(folder)
            _, [found] = client.uid("SEARCH", f'HEADER Message-ID "{message_id}"')
            assert client.uid("MOVE", found.decode(), other)[0] == "OK"

    def renew(self, folder: str) -> None:
        """Delete a folder and make it again: its mails have gone, and its UIDs begin anew."""
        with self.account() as client:
            before = client.status(folder, "(UIDVALIDITY)")
            assert client.delete(folder)[0] == client.create(folder)[0] == "OK"
            assert client.status(folder, "(UIDVALIDITY)") != before

    @staticmethod
    def _expunge(client: imaplib.IMAP4, folder: str, criterion: str) -> None:
        client.select(folder)
        _, [found] = client.uid("SEARCH", criterion)
        if found:
            client.uid("STORE", found.decode().replace(" ", ","), "+FLAGS", "(\\Deleted)")
            client.expunge()

    def put(self, folder: str, mail: EmailMessage) -> None:
        with self.account() as client:
            client.create(folder)  # refused where there is one
            status, _ = client.append(folder, "", imaplib.Time2Internaldate(time.time()), mail.as_bytes())
            assert status == "OK"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Run the server."""
    with TemporaryDirectory(prefix="groundline-dovecot-") as folder:
        yield from _running(Path(folder))


def _running(folder: Path) -> Iterator[MailServer]:
    assert DOVECOT is not None, "tests of it are skipped without"
    certificate = folder / "certificate"
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", folder / "key", "-out", certificate, "-days", "2", *name),
        ],
        check=True,
        capture_output=True,
    )
    tls_port, starttls_port = _two_free_ports()
    server = MailServer(tls_port, starttls_port, certificate)
    user = pwd.getpwuid(os.getuid())
    if os.getuid() == 0:  # it neither speaks to strangers nor keeps mail as root
        user = pwd.getpwnam("nobody")
        folder.chmod(0o755)
    group = grp.getgrgid(user.pw_gid)
    for part in ("home", "mail"):
        (folder / part).mkdir()
        os.chown(folder / part, user.pw_uid, user.pw_gid)
    configuration = folder / "dovecot.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder,
            user=user.pw_name,
            group=group.gr_name,
            password=PASSWORD,
            tls_port=server.tls_port,
            starttls_port=server.starttls_port,
        )
    )
    process = subprocess.Popen(
        [DOVECOT, "-F", "-c", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await(process, server.tls_port, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _two_free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"Dovecot does not run: {log.read_text() if log.exists() else 'no log'}")
