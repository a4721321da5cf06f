import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from groundline_embedding import Embedder, EmbeddingSettings, ModelError, create_embedder
from groundline_tests.embedding import EmbedderContract


@pytest.mark.usefixtures("minilm_directory")
class TestLocalEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self, minilm_settings: EmbeddingSettings) -> AsyncIterator[Embedder]:
        async with create_embedder(minilm_settings) as embedder:
            yield embedder

    async def test_it_is_the_model_its_name_says(self, embedder: Embedder) -> None:
        assert embedder.model == "sentence-transformers/all-MiniLM-L6-v2"
        assert (embedder.dimensions, embedder.max_tokens) == (384, 256)

    async def test_paraphrases_are_closer_than_other_subjects(self, embedder: Embedder) -> None:
        question, paraphrase, unrelated = await embedder.embed_documents(
            [
                "How long are invoices kept before they are deleted?",
                "Retention period of billing records",
                "The cat slept on the warm windowsill all afternoon.",
            ]
        )
        assert question @ paraphrase > question @ unrelated + 0.3

    async def test_text_beyond_128_tokens_counts(self, embedder: Embedder) -> None:
        start = "word " * 200
        first, second = await embedder.embed_documents([start, start + "bread and butter"])
        assert not np.array_equal(first, second)

    @pytest.mark.parametrize("times", [45, 90, 400])
    async def test_every_part_of_a_long_text_counts(self, embedder: Embedder, times: int) -> None:
        start = "The lease of a replica runs out. " * times
        query = await embedder.embed_query("bread and butter for breakfast")
        documents = await embedder.embed_documents(
            [start, "short", start + "Bread and butter for breakfast. " * times]
        )
        assert documents[2] @ query > documents[0] @ query + 0.2
        assert np.abs(np.linalg.norm(documents, axis=1) - 1).max() < 1e-5

    async def test_queries_are_answered_while_documents_are_under_way(self, embedder: Embedder) -> None:
        documents = asyncio.create_task(embedder.embed_documents(["lease of a replica " * 60] * 200))
        for _ in range(3):
            await embedder.embed_query("lease")
        assert not documents.done()
        documents.cancel()
        with pytest.raises(asyncio.CancelledError):
            await documents


@pytest.mark.parametrize("model", ["acme/encoder", "sentence-transformers/all-MiniLM-L6-v2"])
async def test_a_directory_gives_the_same_vectors_under_the_name_it_is_given(
    model: str, minilm_directory: Path, minilm_settings: EmbeddingSettings, tmp_path: Path
) -> None:
    # The cache directory cannot be made: a directory has no use for one.
    (tmp_path / "file").touch()
    settings = EmbeddingSettings(
        model=model, model_dir=minilm_directory, cache_dir=tmp_path / "file" / "cache", threads=1
    )
    async with create_embedder(settings) as given, create_embedder(minilm_settings) as built:
        assert given.model == model
        assert given.max_tokens == 256
        texts = ["A replica that lost its lease stops serving reads.", "Bake the bread."]
        assert np.abs(await given.embed_documents(texts) - await built.embed_documents(texts)).max() < 1e-5


async def test_a_directory_of_a_model_with_other_dimensions_is_refused(minilm_directory: Path) -> None:
    settings = EmbeddingSettings(model="thenlper/gte-large", model_dir=minilm_directory)
    with pytest.raises(ModelError, match="should have 1024 dimensions, but its files give 384"):
        async with create_embedder(settings):
            pass


async def test_a_graph_without_its_weights_is_refused(minilm_directory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(minilm_directory, broken, ignore=shutil.ignore_patterns("*.data"))
    with pytest.raises(ModelError, match="cannot load embedding model"):
        async with create_embedder(EmbeddingSettings(model="acme/broken", model_dir=broken)):
            pass
