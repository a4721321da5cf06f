"""`groundline evidence verify --keys`, on a machine without a gateway."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from groundline_cli.__main__ import cli
from groundline_evidence import KeyPair, sign

KEY: Final = KeyPair.new()
VALUES: Final[dict[str, Any]] = {
    "format": "groundline/evidence/1",
    "issueTime": "2026-06-01T12:00:00Z",
    "answers": [
        {
            "question": {"content": "Which torque?"},
            "answer": {"messageId": "m1", "sources": [], "isWithheld": False},
            "passages": [],
        }
    ],
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory from which no suite runs, and no configuration."""
    for name in ("GROUNDLINE_GATEWAY_URL", "GROUNDLINE_API_KEY", "GROUNDLINE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("groundline_cli.commands.gateway.CONFIG_FILE", tmp_path / "none.toml")
    monkeypatch.chdir(tmp_path)


def verified(document: bytes, keys: object, *options: str) -> Any:
    Path("evidence.json").write_bytes(document)
    Path("keys.json").write_text(json.dumps(keys))
    return CliRunner().invoke(cli, ["evidence", "verify", "evidence.json", "--keys", "keys.json", *options])


def test_evidence_is_verified_with_its_keys_alone() -> None:
    done = verified(sign(VALUES, KEY), {"keys": [KEY.jwk()]})
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "the evidence holds"
    assert KEY.key_id in done.output
    assert "Which torque?" in done.output


def test_the_result_as_json_names_key_and_time() -> None:
    done = verified(sign(VALUES, KEY), {"keys": [KEY.jwk()]}, "--json")
    assert json.loads(done.output) == {"keyId": KEY.key_id, "issueTime": VALUES["issueTime"], "passages": []}


@pytest.mark.parametrize(
    ("document", "keys", "said"),
    [
        (sign(VALUES, KEY)[:-1], {"keys": [KEY.jwk()]}, "does not hold"),
        (sign(VALUES, KeyPair.new()), {"keys": [KEY.jwk()]}, "not among those given"),
        (sign(VALUES | {"format": "other/1"}, KEY), {"keys": [KEY.jwk()]}, "not evidence"),
        (sign(VALUES, KEY), {"keys": 1}, "not a JSON Web Key Set"),
        (sign(VALUES, KEY), [], "not a JSON Web Key Set"),
    ],
)
def test_what_does_not_hold_fails_with_the_reason(document: bytes, keys: object, said: str) -> None:
    done = verified(document, keys)
    assert done.exit_code == 1
    assert said in done.output


def test_without_keys_a_gateway_is_needed() -> None:
    Path("evidence.json").write_bytes(sign(VALUES, KEY))
    done = CliRunner().invoke(cli, ["evidence", "verify", "evidence.json"])
    assert done.exit_code == 2
