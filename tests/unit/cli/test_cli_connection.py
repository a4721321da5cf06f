"""Which gateway a command finds."""

import json
from pathlib import Path

import pytest
from groundline_cli.connection import READY_FILE, Connection, ConnectionSettingsError, find_connection
from groundline_client import is_loopback


def write_ready_file(directory: Path, content: object) -> None:
    path = directory / READY_FILE
    path.parent.mkdir()
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_without_any_gateway_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY"):
        find_connection(None, None, directory=tmp_path)


def test_a_gateway_without_a_key_never_gets_the_local_suites_key(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    with pytest.raises(ConnectionSettingsError, match="set GROUNDLINE_API_KEY"):
        find_connection("https://other.example", None, directory=tmp_path)


@pytest.mark.parametrize(
    "url", ["other.example", "ftp://other.example", "http://", "http://[::1", "http://a:99999"]
)
def test_an_address_that_is_no_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConnectionSettingsError, match="must be a URL"):
        find_connection(url, "key", directory=tmp_path)


def test_a_key_that_would_break_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="API key") as raised:
        find_connection("http://localhost", "key\nx-evil: 1", directory=tmp_path)
    assert "evil" not in str(raised.value)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"gateway": "http://127.0.0.1:1"}', '{"gateway": 1, "api_key": 2}']
)
def test_a_broken_ready_file_is_named(tmp_path: Path, content: str) -> None:
    write_ready_file(tmp_path, content)
    with pytest.raises(ConnectionSettingsError, match=r"ready\.json"):
        find_connection(None, None, directory=tmp_path)


def test_a_ready_file_cannot_lead_to_another_machine(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "https://collector.example", "api_key": "k"})
    with pytest.raises(ConnectionSettingsError, match="another machine"):
        find_connection(None, None, directory=tmp_path)


def test_the_suite_of_this_directory_is_found(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key", "services": {}})
    assert find_connection(None, None, directory=tmp_path) == Connection("http://127.0.0.1:8080", "local-key")


def test_what_is_set_comes_first(tmp_path: Path) -> None:
    write_ready_file(tmp_path, {"gateway": "http://127.0.0.1:8080", "api_key": "local-key"})
    found = find_connection("https://other.example/", "key", directory=tmp_path)
    assert found == Connection("https://other.example", "key")
    assert not is_loopback(found.gateway)
    assert "key" not in repr(found).replace("api_key", "")
