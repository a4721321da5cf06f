"""Which gateway a command finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from groundline_cli.__main__ import cli
from groundline_cli.connection import (
    READY_FILE,
    Connection,
    ConnectionSettingsError,
    database_of,
    find_connection,
)
from groundline_client import is_loopback


def write_ready_file(directory: Path, content: object) -> None:
    path = directory / READY_FILE
    path.parent.mkdir()
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def find(gateway: str | None, api_key: str | None, directory: Path) -> Connection:
    """Find the connection without profiles."""
    return find_connection(gateway, api_key, directory=directory, config_file=directory / "config.toml")


def test_without_any_gateway_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY"):
        find(None, None, tmp_path)


def test_a_gateway_without_a_key_never_gets_the_local_suites_key(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    with pytest.raises(ConnectionSettingsError, match="set GROUNDLINE_API_KEY"):
        find("https://other.example", None, tmp_path)


@pytest.mark.parametrize(
    "url", ["other.example", "ftp://other.example", "http://", "http://[::1", "http://a:99999"]
)
def test_an_address_that_is_no_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConnectionSettingsError, match="must be a URL"):
        find(url, "key", tmp_path)


def test_a_key_that_would_break_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="API key") as raised:
        find("http://localhost", "key\nx-evil: 1", tmp_path)
    assert "evil" not in str(raised.value)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"gateway": "http://127.0.0.1:1"}', '{"gateway": 1, "api_key": 2}']
)
def test_a_broken_ready_file_is_named(tmp_path: Path, content: str) -> None:
    write_ready_file(tmp_path, content)
    with pytest.raises(ConnectionSettingsError, match=r"ready\.json"):
        find(None, None, tmp_path)


def test_a_ready_file_cannot_lead_to_another_machine(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "https://collector.example", "api_key": "k"})
    with pytest.raises(ConnectionSettingsError, match="another machine"):
        find(None, None, tmp_path)


def test_the_suite_of_this_directory_is_found(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key", "services": {}})
    assert find(None, None, tmp_path) == Connection("http://127.0.0.1:8080", "local-key")


def test_what_is_set_comes_first(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    found = find("https://other.example/", "key", tmp_path)
    assert found == Connection("https://other.example", "key")
    assert not is_loopback(found.gateway)
    assert "key" not in repr(found).replace("api_key", "")


PROFILES = """
profile = "work"

[profiles.work]
gateway = "https://work.example"
api_key_file = "work.key"

[profiles.lab]
gateway = "https://lab.example"
api_key_env = "LAB_KEY"
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text(PROFILES)
    key = file.with_name("work.key")
    key.write_text("work-key\n")
    key.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("profile = ", "cannot be read"),
        ('profile = "home"', "no profile 'home'"),
        ("[profiles.work]", "must be texts"),
        ('[profiles.work]\ngateway = "https://a"\napi_key = "k"', "api_key is not among"),
        ('[profiles.work]\ngateway = "https://a"', "must say where the key is"),
        ('[profiles.work]\ngateway = "https://a"\napi_key_file = "none"', "cannot be read"),
        ('[profiles.work]\ngateway = "https://a"\napi_key_env = "NOT_SET_HERE"', "NOT_SET_HERE is not set"),
        ('[profiles.work]\ngateway = "https://a"\napi_key_env = "A"\napi_key_file = "b"', "exclude"),
        ('[profiles.work]\ngateway = "a"\napi_key_env = "PATH"', "must be a URL"),
    ],
)
def test_a_profile_that_cannot_be_used_is_explained(config_file: Path, text: str, problem: str) -> None:
    config_file.write_text(text)
    name = None if text.startswith("profile") else "work"
    with pytest.raises(ConnectionSettingsError, match=problem):
        find_connection(None, None, directory=config_file.parent, config_file=config_file, profile_name=name)


@pytest.mark.skipif(os.name != "posix", reason="permissions of files are POSIX's")
def test_a_key_that_others_may_read_is_refused(config_file: Path) -> None:
    config_file.with_name("work.key").chmod(0o644)
    with pytest.raises(ConnectionSettingsError, match="chmod 600") as raised:
        find_connection(None, None, directory=config_file.parent, config_file=config_file)
    assert "work-key" not in str(raised.value)


def test_the_default_profile_comes_after_this_directorys_suite(tmp_path: Path, config_file: Path) -> None:
    default = find_connection(None, None, directory=tmp_path, config_file=config_file)
    assert default == Connection("https://work.example", "work-key")
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    local = find_connection(None, None, directory=tmp_path, config_file=config_file)
    assert local.gateway == "http://127.0.0.1:8080"


def test_a_named_profile_is_first(tmp_path: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "lab-key")
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    named = find_connection(None, None, directory=tmp_path, config_file=config_file, profile_name="lab")
    assert named == Connection("https://lab.example", "lab-key")
    other = find_connection(None, "other", directory=tmp_path, config_file=config_file, profile_name="lab")
    assert other.api_key == "other"


def test_a_gateway_that_is_set_comes_before_profiles(tmp_path: Path, config_file: Path) -> None:
    found = find_connection(
        "https://set.example", "key", directory=tmp_path, config_file=config_file, profile_name="work"
    )
    assert found == Connection("https://set.example", "key")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory; nothing of the environment names a gateway."""
    for name in [name for name in os.environ if name.startswith("GROUNDLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("groundline_cli.commands.gateway.CONFIG_FILE", tmp_path / "config.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_gateway_the_shell_gets_nothing_to_evaluate(bare: Path) -> None:
    printed = CliRunner().invoke(cli, ["env"])
    assert printed.exit_code == 2
    assert printed.stdout == ""
    assert "GROUNDLINE_GATEWAY_URL" in printed.stderr


@pytest.mark.parametrize("key", ["local-key", "$(echo x) `y` '\"; exit 1 #"])
def test_a_shell_gets_the_gateway_and_the_key_as_they_are(bare: Path, key: str) -> None:
    write_ready_file(bare, {"gateway": "http://127.0.0.1:8080", "api_key": key})
    printed = CliRunner().invoke(cli, ["env"])
    assert printed.exit_code == 0
    script = 'eval "$1"; printf "%s\\n" "$GROUNDLINE_GATEWAY_URL" "$GROUNDLINE_API_KEY"; export -p'
    evaluated = subprocess.run(
        ["bash", "-c", script, "bash", printed.stdout], capture_output=True, text=True, check=True
    )
    assert evaluated.stdout.splitlines()[:2] == ["http://127.0.0.1:8080", key]
    assert "declare -x GROUNDLINE_API_KEY=" in evaluated.stdout


def test_a_shell_gets_what_a_command_with_the_same_options_calls(bare: Path) -> None:
    write_ready_file(bare, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    options = ["--gateway", "https://other.example/", "--api-key", "key"]
    printed = CliRunner().invoke(cli, ["env", *options])
    assert printed.stdout.splitlines() == [
        "export GROUNDLINE_GATEWAY_URL=https://other.example",
        "export GROUNDLINE_API_KEY=key",
    ]


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        (["keys", "list"], {"GROUNDLINE_GATEWAY_URL": "https://other.example"}),
        (["import", "config.toml", "-c", "docs"], {"GROUNDLINE_GATEWAY_URL": "http://127.0.0.1:8081"}),
        (["keys", "list"], {"GROUNDLINE_PROFILE": "lab"}),
    ],
)
def test_what_goes_to_the_database_never_goes_to_another_suites_than_the_gateways(
    bare: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], variables: dict[str, str]
) -> None:
    (bare / "config.toml").write_text(PROFILES)
    database = "postgresql://127.0.0.1:1/own"
    ready = {"gateway": "http://127.0.0.1:8080", "api_key": "local-key", "database_url": database}
    write_ready_file(bare, ready)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refused = CliRunner().invoke(cli, command)
    assert refused.exit_code == 2
    assert "is not known" in refused.stderr
    assert "GROUNDLINE_DATABASE_URL" in refused.stderr


@pytest.mark.parametrize("gateway", [None, "http://127.0.0.1:8080", "http://localhost:8080/"])
def test_the_suite_of_this_directory_knows_its_database(tmp_path: Path, gateway: str | None) -> None:
    database = "postgresql://127.0.0.1:1/own"
    ready = {"gateway": "http://127.0.0.1:8080", "api_key": "local-key", "database_url": database}
    write_ready_file(tmp_path, ready)
    assert database_of(gateway, directory=tmp_path, config_file=tmp_path / "config.toml") == database


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_is_told_how_to_complete_commands(shell: str) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell], prog_name="groundline")
    assert printed.exit_code == 0
    assert f"_GROUNDLINE_COMPLETE={shell}_complete" in printed.output
    words = {"COMP_WORDS": "groundline se", "COMP_CWORD": "1", "_GROUNDLINE_COMPLETE": "bash_complete"}
    completed = subprocess.run(
        [sys.executable, "-c", "from groundline_cli.__main__ import main; main()"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
    )
    assert "plain,search" in completed.stdout.splitlines()
