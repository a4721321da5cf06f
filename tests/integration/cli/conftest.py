"""A gateway on a real port, and the command that talks to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from groundline_cli.__main__ import cli
from groundline_tests.gateway.running import FakeGateway, Run, fake_gateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """An empty gateway."""
    with fake_gateway() as server:
        yield server


@pytest.fixture
def groundline(gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command with what the environment says of the gateway; it must end with the exit code."""
    for name in list(os.environ):
        if name.startswith("GROUNDLINE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GROUNDLINE_GATEWAY_URL", gateway.connection.gateway)
    monkeypatch.setenv("GROUNDLINE_API_KEY", gateway.connection.api_key)

    def run(*arguments: str, code: int = 0, **options: str | None) -> Result:
        result = CliRunner().invoke(cli, arguments, prog_name="groundline", **options)  # type: ignore[arg-type]
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    (root / "a.md").write_text("# Leave\n27 days of leave")
    (root / "sub" / "b.txt").write_text("travel costs")
    (root / "data.json").write_text("{}")
    (root / "program").write_bytes(b"\x7fELF\0")
    (root / ".hidden.md").write_text("no")
    return root
