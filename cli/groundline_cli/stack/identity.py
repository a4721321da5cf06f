"""The OS user that PostgreSQL runs as when this process is root, as which PostgreSQL refuses to run."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundline_cli.stack.errors import StackError

# An account made for PostgreSQL if the machine has one, else the one every system has. What others run
# as `nobody` gets no access: the data lies below a directory of root with mode 0700, and the capability
# of `Identity` keeps such processes from attaching to the server.
_ACCOUNTS: Final = ("postgres", "nobody")

# Either lets the server traverse directories of root (a 0700 home, a temporary directory) with its
# binaries and data; the first, weaker one is missing from the default set of containers.
_TRAVERSAL_CAPABILITIES: Final = {"dac_read_search": 2, "dac_override": 1}


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and group id, and the one capability (or none) that a process keeps under them."""

    uid: int
    gid: int
    capability: str | None

    def setpriv_options(self) -> list[str]:
        """Return the options of setpriv(1) that become this user for good, keeping only the one
        capability."""
        kept = f",+{self.capability}" if self.capability else ""
        # access(2), with which initdb looks for its programs, honours capabilities of a user other than root
        # only under this bit.
        access = ["--securebits=+no_setuid_fixup"] if self.capability else []
        return [
            *access,
            f"--reuid={self.uid}",
            f"--regid={self.gid}",
            "--clear-groups",
            f"--inh-caps=-all{kept}",
            f"--ambient-caps=-all{kept}",
            f"--bounding-set=-all{kept}",
            "--no-new-privs",
        ]


def unprivileged_identity(owned: Path) -> Identity | None:
    """Return the owner of `owned` if it exists, else an unprivileged account; None if this process is not
    root.

    PostgreSQL looks its own user up by name, so the id must have an account. Raises StackError if no account
    serves.
    """
    if os.geteuid() != 0:
        return None
    account = _account_of(owned) if owned.exists() else _first_account(_ACCOUNTS)
    return Identity(account.pw_uid, account.pw_gid, _traversal_capability(_permitted_capabilities()))


def _account_of(path: Path) -> pwd.struct_passwd:
    uid = path.stat().st_uid
    try:
        account = pwd.getpwuid(uid)
    except KeyError as error:
        raise StackError(f"{path} belongs to user id {uid}, which has no account here") from error
    if uid == 0:
        raise StackError(f"{path} belongs to root; PostgreSQL cannot run as root")
    return account


def _first_account(names: Iterable[str]) -> pwd.struct_passwd:
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise StackError(
        f"PostgreSQL cannot run as root, and there is no account named {' or '.join(names)}: "
        "run as another user, or set GROUNDLINE_DATABASE_URL"
    )


def _permitted_capabilities() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], base=16)
    return 0


def _traversal_capability(permitted: int) -> str | None:
    return next((name for name, bit in _TRAVERSAL_CAPABILITIES.items() if permitted >> bit & 1), None)
