"""Private files, secrets and the lock of a data directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from groundline_cli.stack.errors import DirectoryInUseError, StackError
from groundline_cli.stack.files import (
    DirectoryLock,
    make_private_directory,
    read_or_create_secret,
    write_private,
)


def test_a_second_holder_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with (
        DirectoryLock(tmp_path),
        pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"),
    ):
        DirectoryLock(tmp_path).acquire()


def test_a_lock_whose_holder_was_killed_is_free(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from groundline_cli.stack.files import DirectoryLock;"
        "DirectoryLock(Path(sys.argv[1])).acquire(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert killed.returncode < 0
    assert (tmp_path / "lock").read_text() != ""
    with DirectoryLock(tmp_path):
        assert (tmp_path / "lock").read_text().strip() == str(os.getpid())


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        pass
    with DirectoryLock(tmp_path):
        pass


def test_a_directory_below_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="cannot create the directory"):
        make_private_directory(tmp_path / "file" / "data")


def test_a_file_in_the_place_of_the_directory_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="cannot create the directory"):
        make_private_directory(tmp_path / "file")


def test_a_new_directory_is_closed_to_others_and_an_old_one_is_left_alone(tmp_path: Path) -> None:
    assert stat.S_IMODE(make_private_directory(tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "old").mkdir(mode=0o755)
    assert stat.S_IMODE(make_private_directory(tmp_path / "old").stat().st_mode) == 0o755


def test_a_secret_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    first = read_or_create_secret(tmp_path / "api_key")
    assert len(first) >= 43
    assert read_or_create_secret(tmp_path / "api_key") == first
    assert stat.S_IMODE((tmp_path / "api_key").stat().st_mode) == 0o600


def test_writing_replaces_the_file_whole_and_closes_it_to_others(tmp_path: Path) -> None:
    target = tmp_path / "ready.json"
    target.write_text("old and longer")
    target.chmod(0o644)
    write_private(target, "new")
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "ready.json"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_private(target, "\ud800")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]
