"""`groundline up` as typed: what it refuses, and what it says when everything is up."""

import socket
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


def test_off_a_terminal_one_line_holds_address_key_and_a_curl(capsys: pytest.CaptureFixture[str]) -> None:
    announce(
        ReadyInfo(
            gateway="http://127.0.0.1:8080", api_key="the-key", services={}, pids={}, database_url="secret"
        )
    )
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        "ready: http://127.0.0.1:8080 api-key: the-key try: curl -N -H 'x-api-key: the-key' "
        """http://127.0.0.1:8080/api/chat -d '{"query": "…"}'"""
    )
