"""What `groundline up` says of itself."""

import sys
from pathlib import Path

import pytest
from groundline_cli.commands.up import announce
from groundline_cli.stack.stack import ReadyInfo

READY = Path("data/ready.json")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_key_is_shown_to_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    info = ReadyInfo(
        gateway="http://127.0.0.1:8080", api_key="a-secret-key", services={}, pids={}, database_url=""
    )
    announce(info, ready_file=READY)
    shown = capsys.readouterr().out
    assert info.gateway in shown
    assert (info.api_key in shown) == is_terminal
    assert (str(READY) in shown) != is_terminal
