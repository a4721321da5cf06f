"""Programs that Go builds for tests are built once and kept whole."""

from collections.abc import Callable
from pathlib import Path

import pytest
from groundline_tests.go.programs import built


def writes(content: str) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        (folder / "program").write_text(content)

    return build


def fails(folder: Path) -> None:
    (folder / "half").touch()
    raise AssertionError("does not compile")


def test_a_failed_build_leaves_nothing_and_the_next_run_builds_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(AssertionError, match="does not compile"):
        built(cache, "key", fails)
    assert list(cache.iterdir()) == []
    assert (built(cache, "key", writes("made")) / "program").read_text() == "made"


def test_what_is_kept_is_not_built_again_except_for_another_key(tmp_path: Path) -> None:
    folder = built(tmp_path, "key", writes("made"))
    assert built(tmp_path, "key", fails) == folder
    assert (built(tmp_path, "other", writes("other")) / "program").read_text() == "other"


def test_an_empty_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    assert (built(tmp_path, "key", writes("made")) / "program").read_text() == "made"


def test_of_two_runs_that_build_at_once_the_first_to_finish_is_kept(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        built(tmp_path, "key", writes("first"))
        writes("second")(folder)

    assert (built(tmp_path, "key", build) / "program").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
