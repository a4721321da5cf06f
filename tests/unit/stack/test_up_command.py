"""`groundline up` as typed: what it refuses, and what it says when everything is up."""

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from groundline_cli.commands.up import announce, up
from groundline_cli.stack.stack import ReadyInfo


def test_examples_that_are_not_there_are_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(up, ["--data-dir", str(tmp_path / "d"), "--examples", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_a_port_beyond_the_range_is_a_usage_error() -> None:
    assert CliRunner().invoke(up, ["--gateway-port", "65536"]).exit_code == 2


def test_a_taken_port_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = CliRunner().invoke(up, ["--data-dir", str(tmp_path / "d"), "--gateway-port", port])
    assert result.exit_code == 1
    assert result.stderr == f"error: port {port} on 127.0.0.1 cannot be used: Address already in use\n"
    assert result.stdout == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_key_is_shown_to_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    info = ReadyInfo(
        gateway="http://127.0.0.1:8080", api_key="the-key", services={}, pids={}, database_url="secret"
    )
    announce(info, ready_file=Path("data/ready.json"))
    shown = capsys.readouterr().out
    assert "secret" not in shown
    assert (info.api_key in shown) == is_terminal
    if not is_terminal:
        (line,) = shown.splitlines()
        assert line == 'ready: http://127.0.0.1:8080 api-key: in data/ready.json try: groundline ask "…"'


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_address_of_the_viewer_of_traces_is_shown_if_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    info = ReadyInfo(
        gateway="http://127.0.0.1:8080", api_key="k", services={}, pids={}, database_url="", viewer="http://v"
    )
    announce(info, ready_file=Path("data/ready.json"))
    assert "http://v" in capsys.readouterr().out
    announce(replace(info, viewer=None), ready_file=Path("data/ready.json"))
    assert "traces" not in capsys.readouterr().out
