"""groundline models: the choice, and refusals."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from groundline_cli.__main__ import cli
from groundline_cli.commands.up import _embedding_model
from groundline_embedding.local.catalog import KNOWN_MODELS, MULTILINGUAL_MODEL


def test_a_model_that_is_not_known_is_refused_with_those_that_are() -> None:
    result = CliRunner().invoke(cli, ["models", "fetch", "acme/large"])
    assert result.exit_code == 2
    assert "'acme/large' is not known" in result.output
    assert "intfloat/multilingual-e5-small" in result.output


def test_a_server_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundline_embedding.local.download.ATTEMPTS", 1)
    arguments = ["models", "fetch", "intfloat/multilingual-e5-small", "--cache-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, [*arguments, "--from", "http://127.0.0.1:9"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "could not be fetched from http://127.0.0.1:9" in result.stderr


def test_models_are_listed_with_what_decides_among_them(tmp_path: Path) -> None:
    arguments = ["models", "list", "--json", "--cache-dir", str(tmp_path)]
    shown = json.loads(CliRunner().invoke(cli, arguments).stdout)["models"]
    assert [one["name"] for one in shown] == [model.name for model in KNOWN_MODELS]
    assert [one["isHere"] for one in shown] == [True, True, False, False]
    assert {one["licence"] for one in shown} <= {"MIT", "Apache-2.0"}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "sentence-transformers/all-MiniLM-L6-v2: English"),
        ({"MODEL": MULTILINGUAL_MODEL}, f"{MULTILINGUAL_MODEL}: about 100"),
        ({"PROVIDER": "tei"}, "embedding by tei: every text and question goes there"),
    ],
)
def test_up_says_which_model_embeds_and_what_it_is_good_for(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"GROUNDLINE_EMBEDDING__{name}", value)
    assert said in _embedding_model()
