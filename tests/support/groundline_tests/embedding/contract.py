"""Contract of every Embedder, as tests.

Subclass in a test module and give the class an `embedder` fixture of function scope:

    class TestMyEmbedder(EmbedderContract):
        @pytest.fixture
        async def embedder(self): ...
"""

import asyncio
from typing import Final

import numpy as np
from groundline_embedding.ports import Embedder

TEXTS: Final = (
    "A replica that lost its lease stops serving reads.",
    "Bake the bread until the crust is dark brown.",
    "Invoices are archived for ten years.",
    "",
    "The lease of a replica runs out after nine seconds without a heartbeat. " * 40,
    "Größe, naïve, 東京, 🙂 and a tab\tand a line\nbreak",
)

# Batches of other shapes are summed in another order.
TOLERANCE: Final = 1e-5


class EmbedderContract:
    """Contract of an embedder, collected through its subclasses."""

    async def test_a_closed_embedder_refuses_work(self, embedder: Embedder) -> None:
        await embedder.close()
        await embedder.close()
        for work in (embedder.embed_query("late"), embedder.embed_documents(["late"])):
            try:
                await work
            except RuntimeError:
                continue
            raise AssertionError("a closed embedder answered")

    async def test_nothing_gives_an_array_of_no_rows(self, embedder: Embedder) -> None:
        vectors = await embedder.embed_documents([])
        assert vectors.shape == (0, embedder.dimensions)
        assert vectors.dtype == np.float32

    async def test_a_query_is_a_float32_vector_of_length_one(self, embedder: Embedder) -> None:
        for text in TEXTS:
            vector = await embedder.embed_query(text)
            assert vector.shape == (embedder.dimensions,)
            assert vector.dtype == np.float32
            assert abs(float(np.linalg.norm(vector)) - 1) < TOLERANCE

    async def test_documents_are_float32_rows_of_length_one(self, embedder: Embedder) -> None:
        vectors = await embedder.embed_documents(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimensions)
        assert vectors.dtype == np.float32
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < TOLERANCE

    async def test_documents_keep_their_order_whatever_their_length(self, embedder: Embedder) -> None:
        texts = [f"{'word ' * (7 * i % 40)}number {i}" for i in range(40)]
        together = await embedder.embed_documents(texts)
        alone = [await embedder.embed_documents([text]) for text in texts]
        assert np.abs(together - np.concatenate(alone)).max() < TOLERANCE

    async def test_windows_hold_all_chunks_in_order_and_have_a_vector_for_each(
        self, embedder: Embedder
    ) -> None:
        windows = [*embedder.windows(TEXTS), *embedder.windows([])]
        assert [chunk for window in windows for chunk in window] == list(TEXTS)
        vectors = await embedder.embed_windows(windows)
        assert vectors.shape == (len(TEXTS), embedder.dimensions)
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < TOLERANCE
        [alone] = await embedder.embed_windows([TEXTS[:1]])
        assert np.abs(alone - (await embedder.embed_documents(TEXTS[:1]))[0]).max() < TOLERANCE
        assert (await embedder.embed_windows([])).shape == (0, embedder.dimensions)

    async def test_the_same_text_has_the_same_vector_each_time(self, embedder: Embedder) -> None:
        first, second = [await embedder.embed_query(TEXTS[0]) for _ in range(2)]
        assert np.array_equal(first, second)

    async def test_a_query_finds_the_document_about_its_subject(self, embedder: Embedder) -> None:
        documents = await embedder.embed_documents(TEXTS[:3])
        for query, expected in (
            ("lease of a replica", 0),
            ("dark brown bread crust", 1),
            ("archived invoices", 2),
        ):
            assert int(np.argmax(documents @ await embedder.embed_query(query))) == expected

    async def test_what_follows_the_token_limit_of_a_query_is_ignored(self, embedder: Embedder) -> None:
        if embedder.max_tokens is None:
            return
        full = "lease " * embedder.max_tokens
        vectors = [await embedder.embed_query(text) for text in (full, full + "bread and butter")]
        assert np.array_equal(vectors[0], vectors[1])

    async def test_tokens_are_counted_to_the_end_of_a_text(self, embedder: Embedder) -> None:
        one, many, none = embedder.count_tokens(["lease", "lease " * 1000, ""])
        assert (one, many, none) == (1, 1000, 0)
        assert embedder.count_tokens([]) == []

    async def test_concurrent_calls_do_not_mix_their_results(self, embedder: Embedder) -> None:
        expected = await embedder.embed_documents(TEXTS)
        alone = [await embedder.embed_query(text) for text in TEXTS]
        *queries, documents = await asyncio.gather(
            *(embedder.embed_query(text) for text in TEXTS), embedder.embed_documents(TEXTS)
        )
        assert np.abs(documents - expected).max() < TOLERANCE
        assert np.abs(np.stack(queries) - np.stack(alone)).max() < TOLERANCE

    async def test_name_and_sizes_are_known(self, embedder: Embedder) -> None:
        assert embedder.model
        assert embedder.dimensions > 0
        assert embedder.max_tokens is None or embedder.max_tokens > 0
