import numpy as np
import pytest
from groundline_embedding import Embedder
from groundline_tests.embedding import EmbedderContract, FakeEmbedder


class TestFakeEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return FakeEmbedder()

    async def test_order_and_case_of_words_do_not_matter(self, embedder: Embedder) -> None:
        first = await embedder.embed_query("replica lease")
        second = await embedder.embed_query("LEASE, replica!")
        assert np.array_equal(first, second)

    async def test_its_vectors_are_the_same_in_every_process(self) -> None:
        vector = await FakeEmbedder(dimensions=1000).embed_query("lease")
        assert np.flatnonzero(vector).tolist() == [365]
