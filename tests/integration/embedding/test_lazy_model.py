"""Models that are loaded when a text comes, and given up when none does."""

import asyncio
import subprocess
import sys

import numpy as np
import pytest
from groundline_embedding import EmbeddingSettings, create_embedders
from groundline_embedding.local.catalog import find_model
from groundline_embedding.local.lazy import LazyEmbedder
from groundline_embedding.settings import DEFAULT_MODEL

IDLE_SECONDS = 0.2
TEXTS = 150
"""Texts that take several times as long."""


@pytest.fixture
def lazy(minilm_settings: EmbeddingSettings) -> LazyEmbedder:
    known = find_model(DEFAULT_MODEL)
    assert known is not None
    return LazyEmbedder(known, minilm_settings, idle_seconds=IDLE_SECONDS)


async def until_given_up(lazy: LazyEmbedder) -> None:
    async with asyncio.timeout(30):
        while lazy.is_loaded:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def test_an_idle_model_is_given_up_and_gives_the_same_vectors_later(lazy: LazyEmbedder) -> None:
    await until_given_up(lazy)
    before = await lazy.embed_query("How many days of leave?")
    assert lazy.is_loaded
    await until_given_up(lazy)
    after = await lazy.embed_query("How many days of leave?")
    assert np.array_equal(before, after)
    await until_given_up(lazy)
    assert (await lazy.embed_documents(["Twenty-seven."])).shape == (1, lazy.dimensions)
    await lazy.close()
    with pytest.raises(RuntimeError, match="was closed"):
        await lazy.embed_query("late")


async def test_a_model_at_work_is_kept_and_many_at_once_load_it_once(
    lazy: LazyEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from groundline_embedding.local.embedder import LocalEmbedder

    loaded = []
    load = LocalEmbedder.load

    def counted(settings: EmbeddingSettings) -> LocalEmbedder:
        loaded.append(settings)
        return load(settings)

    monkeypatch.setattr(LocalEmbedder, "load", counted)
    texts = [f"Sentence {number}, of some length, for a while of work." for number in range(TEXTS)]
    documents = asyncio.create_task(lazy.embed_documents(texts))
    queries = [lazy.embed_query(f"query {number}") for number in range(8)]
    counts = asyncio.to_thread(lazy.count_tokens, ["one two three"])
    *_, counted_tokens = await asyncio.gather(*queries, counts)
    assert counted_tokens == [3]
    assert (await documents).shape == (TEXTS, lazy.dimensions)
    assert len(loaded) == 1
    await lazy.close()


async def test_a_model_whose_first_caller_was_cancelled_while_it_was_loaded_is_given_up_all_the_same(
    lazy: LazyEmbedder,
) -> None:
    left = asyncio.create_task(lazy.embed_query("How many days?"))
    await asyncio.sleep(0.01)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    assert (await lazy.embed_query("How many?")).shape == (lazy.dimensions,)
    await until_given_up(lazy)
    await lazy.close()


async def test_a_process_that_embeds_nothing_loads_no_engine() -> None:
    program = (
        "import asyncio, sys\n"
        "from groundline_embedding import EmbeddingSettings, create_embedders\n"
        "async def main():\n"
        "    async with create_embedders(EmbeddingSettings()) as embedders:\n"
        "        assert embedders.default.dimensions == 384\n"
        "        assert not {'onnxruntime', 'numpy', 'tokenizers'} & set(sys.modules)\n"
        "        await embedders.default.embed_query('now')\n"
        "        assert 'onnxruntime' in sys.modules\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=False)
    assert done.returncode == 0


async def test_a_needed_model_is_there_before_its_first_text(minilm_settings: EmbeddingSettings) -> None:
    async with create_embedders(minilm_settings, needed={DEFAULT_MODEL, "acme/own"}) as embedders:
        assert isinstance(embedders.default, LazyEmbedder)
        assert embedders.default.is_loaded
