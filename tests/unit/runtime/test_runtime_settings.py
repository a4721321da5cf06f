import os
from pathlib import Path
from typing import Literal

import pytest
from groundline_runtime.settings import ServiceSettings, SettingsError, load_settings
from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import SettingsConfigDict


class ProbeSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_PROBE_")

    api_key: SecretStr
    """A secret without a default."""

    mode: Literal["fast", "good"] = "good"
    """One of two."""

    weights: dict[str, float] = Field(default_factory=dict)
    """JSON."""

    @field_validator("api_key")
    @classmethod
    def _looks_like_a_key(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith("key-"):
            raise ValueError("must start with key-")
        return value


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("GROUNDLINE_"):
            monkeypatch.delenv(name)


def test_all_mistakes_are_named_with_variables_without_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROUNDLINE_PROBE_API_KEY", "hunter2")
    monkeypatch.setenv("GROUNDLINE_PROBE_MODE", "loud-hunter2")
    monkeypatch.setenv("GROUNDLINE_PORT", "hunter2")
    with pytest.raises(SettingsError) as caught:
        load_settings(ProbeSettings)
    text = str(caught.value)
    assert "\n" not in text
    for name in ("GROUNDLINE_PROBE_API_KEY", "GROUNDLINE_PROBE_MODE", "GROUNDLINE_PROBE_PORT"):
        assert name in text
    assert "must start with key-" in text
    assert "hunter2" not in text


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^GROUNDLINE_PROBE_API_KEY \(or GROUNDLINE_API_KEY\): "):
        load_settings(ProbeSettings)


def test_unreadable_json_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_PROBE_API_KEY", "key-1")
    monkeypatch.setenv("GROUNDLINE_PROBE_WEIGHTS", "{hunter2")
    with pytest.raises(SettingsError, match="weights") as caught:
        load_settings(ProbeSettings)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e9"])
def test_impossible_durations_are_refused(monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("GROUNDLINE_DRAIN_SECONDS", seconds)
    with pytest.raises(SettingsError, match="DRAIN_SECONDS"):
        load_settings(ServiceSettings)


def test_the_services_own_variable_wins_over_the_shared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_API_KEY", "key-shared")
    assert load_settings(ProbeSettings).api_key.get_secret_value() == "key-shared"
    monkeypatch.setenv("GROUNDLINE_PROBE_API_KEY", "key-own")
    assert load_settings(ProbeSettings).api_key.get_secret_value() == "key-own"


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_text("GROUNDLINE_PROBE_API_KEY=key-file\nGROUNDLINE_MODE=fast\nGROUNDLINE_OTHER_X=1\n")
    settings = load_settings(ProbeSettings, file)
    assert (settings.api_key.get_secret_value(), settings.mode) == ("key-file", "fast")
    monkeypatch.setenv("GROUNDLINE_API_KEY", "key-environment")
    assert load_settings(ProbeSettings, file).api_key.get_secret_value() == "key-environment"


class Model(BaseModel):
    name: str = "small"
    threads: int | None = None


class GroupedSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="GROUNDLINE_PROBE_")

    model: Model = Model()


def test_a_group_is_read_by_field_from_own_and_shared_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROUNDLINE_MODEL__THREADS", "2")
    monkeypatch.setenv("GROUNDLINE_PROBE_MODEL__NAME", "large")
    assert load_settings(GroupedSettings).model == Model(name="large", threads=2)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDLINE_OTLP_ENDPOINT", "")
    assert load_settings(ServiceSettings).otlp_endpoint is None


def test_settings_do_not_change_and_do_not_show_secrets() -> None:
    settings = ProbeSettings(api_key=SecretStr("key-hunter2"))
    assert "hunter2" not in repr(settings)
    with pytest.raises(ValidationError):
        settings.mode = "fast"  # type: ignore[misc]


def test_the_service_is_named_after_its_prefix() -> None:
    assert ProbeSettings.service_name() == "groundline-probe"


def test_every_setting_says_what_it_is() -> None:
    undescribed = [name for name, field in ServiceSettings.model_fields.items() if not field.description]
    assert undescribed == []
