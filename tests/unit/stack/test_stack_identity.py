"""Whom PostgreSQL runs as."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from groundline_cli.stack.errors import StackError
from groundline_cli.stack.identity import Identity, unprivileged_identity

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its identity")


@as_root
def test_data_of_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="belongs to root"):
        unprivileged_identity(tmp_path)


@as_root
def test_data_of_a_user_without_an_account_is_refused(tmp_path: Path) -> None:
    unknown = next(
        uid for uid in range(40_000, 60_000) if uid not in {entry.pw_uid for entry in pwd.getpwall()}
    )
    os.chown(tmp_path, unknown, -1)
    with pytest.raises(StackError, match=f"user id {unknown}, which has no account"):
        unprivileged_identity(tmp_path)


@as_root
def test_existing_data_decides_by_its_owner(tmp_path: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    os.chown(tmp_path, daemon.pw_uid, daemon.pw_gid)
    identity = unprivileged_identity(tmp_path)
    assert identity is not None
    assert (identity.uid, identity.gid) == (daemon.pw_uid, daemon.pw_gid)


@as_root
def test_new_data_gets_an_unprivileged_account(tmp_path: Path) -> None:
    identity = unprivileged_identity(tmp_path / "none")
    assert identity is not None
    assert identity.uid != 0


@pytest.mark.usefixtures("not_root")
def test_everyone_but_root_stays_who_he_is(tmp_path: Path) -> None:
    assert unprivileged_identity(tmp_path) is None


def test_a_capability_that_is_not_had_is_not_asked_for() -> None:
    options = Identity(uid=7, gid=8, capability=None).setpriv_options()
    assert "--reuid=7" in options
    assert "--regid=8" in options
    assert {option for option in options if "caps" in option or "bounding" in option} == {
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--bounding-set=-all",
    }


def test_no_capability_but_the_one_is_kept() -> None:
    options = Identity(uid=7, gid=8, capability="dac_override").setpriv_options()
    assert "--bounding-set=-all,+dac_override" in options
    assert "--no-new-privs" in options


@as_root
def test_programs_and_data_below_a_closed_directory_of_root_are_reached(tmp_path: Path) -> None:
    """By open(2) and by access(2), which initdb asks whether its own programs may be run."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    identity = unprivileged_identity(tmp_path / "none")
    assert identity is not None
    script = 'test "$(id -u)" -ne 0 && test -x "$0" && "$0"'
    command = ["setpriv", *identity.setpriv_options(), "--", "sh", "-c", script, str(program)]
    assert subprocess.run(command, check=False).returncode == 0
