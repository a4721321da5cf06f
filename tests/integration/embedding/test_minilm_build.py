"""The files built from the wheel: complete, alone, and the same model as a plain forward pass."""

import asyncio
import json
import math
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from groundline_embedding import EmbeddingSettings, ModelError, create_embedder, prepare_model
from groundline_embedding.local.minilm import MINILM
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

BUILD = """
import sys
from pathlib import Path
from groundline_embedding import EmbeddingSettings, prepare_model
print(prepare_model(EmbeddingSettings(cache_dir=Path(sys.argv[1]))))
"""

EMBED_WITHOUT_NETWORK = """
import asyncio, sys
from pathlib import Path

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise AssertionError(f"{event} {arguments}")

sys.addaudithook(refuse)
from groundline_embedding import EmbeddingSettings, create_embedder

async def main():
    async with create_embedder(EmbeddingSettings(cache_dir=Path(sys.argv[1]))) as embedder:
        print((await embedder.embed_query("lease")).shape)
    print("torch" in sys.modules or "onnx" in sys.modules)

asyncio.run(main())
"""


async def run_python(source: str, *arguments: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().splitlines()


def test_a_directory_that_lost_a_file_is_named_and_not_used(minilm_directory: Path, tmp_path: Path) -> None:
    incomplete = tmp_path / minilm_directory.name
    incomplete.mkdir()
    with pytest.raises(ModelError, match=r"lacks model\.onnx, .*delete the directory"):
        prepare_model(EmbeddingSettings(cache_dir=tmp_path))


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"cannot build .* set the embedding's cache_dir"):
        prepare_model(EmbeddingSettings(cache_dir=tmp_path / "file"))


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.safetensors").symlink_to(MINILM.source() / "model.safetensors")
    cache = tmp_path / "cache"
    with pytest.raises(ModelError, match="cannot build"):
        MINILM.build(cache, source)
    assert list(cache.iterdir()) == []


async def test_two_processes_that_build_at_once_both_end_with_the_one_model(tmp_path: Path) -> None:
    first, second = await asyncio.gather(*(run_python(BUILD, str(tmp_path)) for _ in range(2)))
    assert first == second
    assert [str(tmp_path / name) for name in os.listdir(tmp_path)] == first


def test_preparing_again_changes_nothing(minilm_directory: Path, minilm_settings: EmbeddingSettings) -> None:
    before = [(path, path.stat().st_mtime_ns) for path in sorted(minilm_directory.rglob("*"))]
    assert prepare_model(minilm_settings) == minilm_directory
    assert [(path, path.stat().st_mtime_ns) for path in sorted(minilm_directory.rglob("*"))] == before


def test_other_users_can_read_what_was_built(minilm_directory: Path) -> None:
    # An image is built as root and run as somebody else.
    assert stat.S_IMODE(minilm_directory.stat().st_mode) & 0o555 == 0o555


async def test_embedding_needs_neither_network_nor_torch_nor_onnx(
    minilm_directory: Path, minilm_settings: EmbeddingSettings
) -> None:
    output = await run_python(EMBED_WITHOUT_NETWORK, str(minilm_settings.cache_dir))
    assert output == ["(384,)", "False"]


async def test_vectors_equal_those_of_a_plain_forward_pass(
    minilm_directory: Path, minilm_settings: EmbeddingSettings
) -> None:
    texts = [
        "A replica that lost its lease stops serving reads.",
        "",
        "Größe, naïve, 東京 and 🙂",
        "The lease of a replica runs out after nine seconds without a heartbeat. " * 40,
    ]
    reference = PlainMiniLM()
    expected = np.stack([reference.embed(text) for text in texts])
    async with create_embedder(minilm_settings) as embedder:
        documents = await embedder.embed_documents(texts)
        queries = np.stack([await embedder.embed_query(text) for text in texts])
    # The whole of a long document counts, but only the beginning of a long query.
    for vectors, reference_vectors in ((documents[:-1], expected[:-1]), (queries, expected)):
        assert np.abs(vectors - reference_vectors).max() < 1e-4
        assert (vectors * reference_vectors).sum(axis=1).min() > 0.99999


type Floats = NDArray[np.float64]


class PlainMiniLM:
    """BERT as its paper and its weights' names describe it, one text at a time in float64, no padding."""

    def __init__(self) -> None:
        directory = MINILM.source()
        self._weights = load_file(directory / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_padding()
        limit = json.loads((directory / "sentence_bert_config.json").read_text())["max_seq_length"]
        self._tokenizer.enable_truncation(limit)

    def embed(self, text: str) -> Floats:
        ids = self._tokenizer.encode(text).ids
        hidden = self._norm(
            "embeddings.LayerNorm",
            self._weight("embeddings.word_embeddings")[ids]
            + self._weight("embeddings.position_embeddings")[: len(ids)]
            + self._weight("embeddings.token_type_embeddings")[0],
        )
        for layer in range(6):
            hidden = self._layer(f"encoder.layer.{layer}", hidden)
        mean = hidden.mean(axis=0)
        unit: Floats = mean / np.linalg.norm(mean)
        return unit

    def _layer(self, name: str, hidden: Floats) -> Floats:
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", hidden).reshape(len(hidden), 12, 32).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(32))
        attended = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        attended = attended.swapaxes(0, 1).reshape(len(hidden), 384)
        hidden = self._norm(
            f"{name}.attention.output.LayerNorm",
            self._linear(f"{name}.attention.output.dense", attended) + hidden,
        )
        inner = self._linear(f"{name}.intermediate.dense", hidden)
        inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", inner) + hidden)

    def _linear(self, name: str, values: Floats) -> Floats:
        return values @ self._weight(name).T + self._weight(name, "bias")

    def _norm(self, name: str, values: Floats) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / scale * self._weight(name) + self._weight(name, "bias")

    def _weight(self, name: str, part: str = "weight") -> Floats:
        return self._weights[f"{name}.{part}"].astype(np.float64)
