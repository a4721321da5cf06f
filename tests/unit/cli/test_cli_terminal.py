"""Text that a terminal may be shown."""

import contextlib
import logging
import os
import subprocess
import sys

import pytest
import structlog
from click.testing import CliRunner
from groundline_cli.__main__ import cli
from groundline_cli.terminal import logging_from, print_columns, print_json, printable, summary
from hypothesis import given
from hypothesis import strategies as st


def test_nothing_in_a_text_commands_the_terminal() -> None:
    assert (
        printable("a\x1b[31mb\x9b2Jc\r\x07\x7f\u202ed\udc80")
        == "a\ufffd[31mb\ufffd2Jc" + "\ufffd" * 4 + "d\ufffd"
    )
    assert printable("line\n\tindented Größe 🐟") == "line\n\tindented Größe 🐟"


@given(st.text())
def test_what_is_printable_can_be_encoded_and_stays_so(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert printable(shown) == shown
    assert len(shown) == len(text)


def test_a_summary_ends_with_a_whole_word() -> None:
    assert summary(" one\n two  three ", length=8) == "one two…"
    assert summary("one two", length=7) == "one two"


def test_json_is_one_line_of_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "ü\x9b\n"})
    assert capsys.readouterr().out == '{"a": "\\u00fc\\u009b\\n"}\n'


def test_columns_are_aligned_and_hold_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("NAME", "N", "X"), [("a\x1b\nb", 5, 0.5), ("long name", 1234, 0.25)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME          N      X",
        "a\ufffd b          5  0.500",
        "long name  1234  0.250",
    ]
    print_columns(("NAME",), [])
    assert capsys.readouterr().out == ""


PROGRESS = """
from groundline_cli.commands.ingest import progress_bar
from groundline_cli.ingestion import UploadProgress
with progress_bar() as show:
    for ended in range(1001):
        show(UploadProgress(1000, ended, 1000, ended))
"""


def test_progress_is_a_line_for_each_twentieth_where_lines_cannot_be_written_over() -> None:
    ours, theirs = os.openpty()  # a terminal that does not say how large it is
    with open(theirs, "wb", closefd=True) as terminal:
        subprocess.run([sys.executable, "-c", PROGRESS], stderr=terminal, check=True)
    with open(ours, "rb", buffering=0) as shown:
        lines = shown.read(65536).decode().splitlines()
    assert lines[0] == "ingesting: 50 of 1000 documents, 50 chunks"
    assert len(lines) == 19


def test_log_lines_are_kept_out_for_as_long_as_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger()
    with contextlib.suppress(ValueError), logging_from(logging.WARNING):
        log.info("detail")
        log.warning("danger")
        raise ValueError
    log.info("later")
    shown = capsys.readouterr().out
    assert "detail" not in shown
    assert "danger" in shown
    assert "later" in shown


def test_a_command_that_is_misspelled_is_named_beside_the_ones_meant() -> None:
    outcome = CliRunner().invoke(cli, ["documnts"])
    assert outcome.exit_code == 2
    assert "'documents'" in outcome.output
