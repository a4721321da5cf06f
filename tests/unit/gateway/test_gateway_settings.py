"""Settings: what is refused, and how it is said."""

import json
from pathlib import Path
from typing import Any

import pytest
from groundline_gateway.__main__ import main
from groundline_gateway.settings import GatewaySettings
from groundline_runtime.settings import SettingsError, load_settings

KEY = "a-key-of-sixteen-or-more"
HOLDER = {"key": KEY, "client": "demo", "principals": ["user:demo"]}


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_GATEWAY_API_KEYS", json.dumps([HOLDER]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "65536"),
        ("GRPC_PORT", "0"),
        ("GRPC_PORT", "8080"),
        ("METRICS_PORT", "65536"),
        ("HOST", "localhost"),
        ("COORDINATOR_ADDRESS", "coordinator"),
        ("INGESTOR_ADDRESS", "http://ingestor:50051"),
        ("RATE_LIMIT_PER_MINUTE", "0"),
        ("MAX_REQUEST_BYTES", "1"),
        ("ANSWER_TIMEOUT_SECONDS", "0"),
        ("ANSWER_TIMEOUT_SECONDS", "inf"),
        ("OTLP_ENDPOINT", "collector:4317"),
        ("WORKER_THREADS", "0"),
        ("CONSOLE_TRACE_URL", "https://traces.example/"),
        ("CONSOLE_TRACE_URL", "javascript:alert('{trace_id}')"),
        ("CONSOLE_SIGN_IN", '{"issuer": "http://login.example", "client_id": "a"}'),
        ("CONSOLE_SIGN_IN", '{"issuer": "https://login.example; script-src *", "client_id": "a"}'),
        (
            "CONSOLE_SIGN_IN",
            '{"issuer": "https://login.example", "client_id": "a", "endpoint_origins": ["https://b.example/c"]}',
        ),
        ("CONSOLE_SIGN_IN", '{"issuer": "https://login.example", "client_id": "a", "scopes": ["email"]}'),
        ("CONSOLE_SIGN_IN", '{"issuer": "https://login.example", "client_id": "a"}'),
        ("API_KEYS", "[]"),
        ("API_KEYS", "{"),
    ],
)
def test_a_wrong_value_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"GROUNDLINE_GATEWAY_{name}", value)

    with pytest.raises(SettingsError, match=rf"(?i){name}"):
        load_settings(GatewaySettings)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"key": "short"}, "key"),
        ({"key": "has a space in its middle"}, "key"),
        ({"key": "has,a,comma,in,its,middle"}, "key"),
        ({"client": ""}, "client"),
        ({"client": 'a"b'}, "client"),
        ({"principals": []}, "principals"),
        ({"principals": ["user:a,group:admin"]}, "principals"),
        ({"principals": ["user:a", "*"]}, "principals"),
        ({"principals": ["user:a\r\nx: y"]}, "principals"),
        ({"role": "admin"}, "role"),
    ],
)
def test_a_wrong_key_entry_is_refused_without_showing_the_key(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], named: str
) -> None:
    monkeypatch.setenv("GROUNDLINE_GATEWAY_API_KEYS", json.dumps([HOLDER | change]))

    with pytest.raises(SettingsError) as refused:
        load_settings(GatewaySettings)

    assert f"API_KEYS[0].{named}" in str(refused.value)
    assert KEY not in str(refused.value)
    assert change.get("key", KEY) not in str(refused.value)


def test_metrics_need_the_admin_interface_and_a_port_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_METRICS_PORT", "8080")
    with pytest.raises(SettingsError, match="metrics_port needs admin_address"):
        load_settings(GatewaySettings)

    monkeypatch.setenv("GROUNDLINE_GATEWAY_ADMIN_ADDRESS", "127.0.0.1:9901")
    with pytest.raises(SettingsError, match="metrics_port is the same as port"):
        load_settings(GatewaySettings)

    monkeypatch.setenv("GROUNDLINE_GATEWAY_METRICS_PORT", "9464")
    assert load_settings(GatewaySettings).metrics_port == 9464


def test_one_key_cannot_have_two_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    other = HOLDER | {"client": "other"}
    monkeypatch.setenv("GROUNDLINE_GATEWAY_API_KEYS", json.dumps([HOLDER, other]))

    with pytest.raises(SettingsError, match="twice"):
        load_settings(GatewaySettings)


def test_a_wrong_setting_ends_the_command_with_one_line_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GROUNDLINE_GATEWAY_API_KEYS")

    with pytest.raises(SystemExit) as ended:
        main([])

    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "set api_keys, database_url or jwt_issuers" in captured.err
    assert captured.out == ""


def test_the_gateways_own_name_wins_over_the_shared_one_and_both_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.env"
    file.write_text("GROUNDLINE_GATEWAY_PORT=1\nGROUNDLINE_OTLP_ENDPOINT=http://file:4317\nOTHER=x\n")
    assert load_settings(GatewaySettings, file).port == 1
    assert load_settings(GatewaySettings, file).otlp_endpoint is not None

    monkeypatch.setenv("GROUNDLINE_PORT", "2")
    assert load_settings(GatewaySettings, file).port == 2
    monkeypatch.setenv("GROUNDLINE_GATEWAY_PORT", "3")
    assert load_settings(GatewaySettings, file).port == 3


def test_a_settings_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(GatewaySettings, tmp_path / "none.env")
