"""Search of collections whose model knows many languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from groundline.v1 import options_pb2, passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_embedding.local.catalog import MULTILINGUAL_MODEL
from groundline_embedding.ports import Vectors
from groundline_embedding.settings import DEFAULT_MODEL
from groundline_ranking import ArmHits, Hit
from groundline_retriever.arms import Groups, Translation, beside
from groundline_retriever.domain import Hits, IndexedCollection
from groundline_retriever.wording.languages import evening
from groundline_tests.embedding import FakeEmbedder
from groundline_tests.retriever.service import KEYWORD, NOBODY, SEMANTIC, FakeStore, ids, service

SIGNED, UNTERSCHRIEBEN = "It was signed by Ann.", "Unterschrieben hat ihn Ann."
LEASE = "It is about the lease."


@pytest.mark.parametrize(
    ("model", "query", "best"),
    [
        (MULTILINGUAL_MODEL, "Who signed the contract?", 1),
        (MULTILINGUAL_MODEL, "Wer hat den Vertrag unterschrieben?", 2),
        (MULTILINGUAL_MODEL, "contract", 1),
        (DEFAULT_MODEL, "Wer hat den Vertrag unterschrieben?", 1),
    ],
)
async def test_words_of_another_language_count_little_beside_vectors_of_many(
    model: str, query: str, best: int
) -> None:
    """Chunk 1 has the words of the query, chunk 2 its meaning."""

    class Store(FakeStore):
        async def _search(self, arm: int, *given: Any) -> Sequence[Sequence[Hit]]:
            self.hits = ((1, 9.0), (2, 1.0)) if arm == KEYWORD else ((2, 0.9), (1, 0.86))
            return await super()._search(arm, *given)

    store = Store({"guides": []}, model=model)
    response = await service(store, FakeEmbedder(model)).search(NOBODY, pb.SearchRequest(query=query))
    assert ids(response)[0] == best
    assert list(response.multilingual_collection_ids) == (["guides"] if model == MULTILINGUAL_MODEL else [])


class Recording(FakeEmbedder):
    """Remembers what its vectors are of."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.texts: dict[bytes, str] = {}

    async def embed_query(self, text: str) -> Vectors:
        vector = await super().embed_query(text)
        self.texts[vector.tobytes()] = text
        return vector


@dataclass
class Bilingual(FakeStore):
    """Chunks 1 and 3 are what a question's vector finds, chunk 2 what its translation's finds."""

    embedder: Recording = field(default_factory=lambda: Recording(MULTILINGUAL_MODEL))

    async def semantic(self, collections: Sequence[IndexedCollection], vector: Vectors, **given: Any) -> Hits:
        is_translation = "vertrag" in self.embedder.texts[vector.tobytes()]
        self.hits = ((2, 0.9),) if is_translation else ((1, 0.95), (3, 0.75))
        return await super().semantic(collections, vector, **given)


@pytest.mark.parametrize(
    ("texts", "model", "expected", "searches"),
    [
        ({1: SIGNED, 2: UNTERSCHRIEBEN, 3: LEASE}, MULTILINGUAL_MODEL, [1, 3, 2], 4),
        ({1: SIGNED, 2: "It is about the roof.", 3: LEASE}, MULTILINGUAL_MODEL, [1, 3], 3),
        ({1: SIGNED, 2: UNTERSCHRIEBEN, 3: LEASE}, DEFAULT_MODEL, [1, 3], 2),
    ],
)
async def test_a_question_is_searched_for_in_the_other_language_if_texts_are_in_it(
    texts: Mapping[int, str], model: str, expected: list[int], searches: int
) -> None:
    """Whether there are such texts is remembered."""
    embedder = Recording(model)
    store = Bilingual({"guides": []}, texts=texts, model=model, failing={KEYWORD}, embedder=embedder)
    search, request = service(store, embedder), pb.SearchRequest(query="Who signed the contract?")
    for _ in range(2):
        assert ids(await search.search(NOBODY, request)) == expected
    assert [arm for arm, _ in store.searched].count(SEMANTIC) == searches


@pytest.mark.parametrize(
    ("own", "other", "weights"), [(8.0, 2.0, [0.075, 0.3]), (2.0, 8.0, [0.3, 0.3]), (0.0, 8.0, [0.3, 0.3])]
)
def test_words_of_a_looser_translation_count_less(own: float, other: float, weights: list[float]) -> None:
    def keyword(score: float) -> ArmHits:
        hit = Hit(1, score, "guides", 0, 0, passage_pb2.SOURCE_TYPE_FILE, b"")
        return ArmHits(KEYWORD, [hit] if score else [])

    found = beside([keyword(own)], [keyword(other), ArmHits(SEMANTIC, keyword(0.9).hits)])
    assert [each.weight for each in found] == pytest.approx(weights)


@pytest.mark.parametrize(
    ("model", "fusion", "best"),
    [
        (MULTILINGUAL_MODEL, options_pb2.FUSION_METHOD_WEIGHTED, 2),
        (MULTILINGUAL_MODEL, options_pb2.FUSION_METHOD_RRF, 1),
        (DEFAULT_MODEL, options_pb2.FUSION_METHOD_WEIGHTED, 1),
    ],
)
async def test_words_count_less_beside_similarities_that_lie_close_together(
    model: str, fusion: options_pb2.FusionMethod.ValueType, best: int
) -> None:
    """Chunk 1 has twice the share of the query's words, chunk 2 is nearer."""

    class Store(FakeStore):
        async def _search(self, arm: int, *given: Any) -> Sequence[Sequence[Hit]]:
            self.hits = ((1, 9.0), (2, 4.5)) if arm == KEYWORD else ((2, 0.9), (1, 0.76))
            return await super()._search(arm, *given)

    request = pb.SearchRequest(query="contract")
    request.options.rerank.fusion = fusion
    response = await service(Store({"guides": []}, model=model), FakeEmbedder(model)).search(NOBODY, request)
    assert ids(response)[0] == best


async def test_similarities_weigh_more_only_beside_words() -> None:
    class Store(FakeStore):
        async def _search(self, arm: int, *given: Any) -> Sequence[Sequence[Hit]]:
            self.hits = ((1, 0.85),)
            return await super()._search(arm, *given)

    search = service(Store({"guides": []}, model=MULTILINGUAL_MODEL), FakeEmbedder(MULTILINGUAL_MODEL))
    scores = {}
    for mode in (options_pb2.RETRIEVAL_MODE_HYBRID, options_pb2.RETRIEVAL_MODE_SEMANTIC):
        request = pb.SearchRequest(query="contract")
        request.options.retrieval.mode = mode
        [passage] = (await search.search(NOBODY, request)).passages
        scores[mode] = passage.score
    assert [*scores.values()] == pytest.approx([1 / 3 + 5 / 3 * 0.5, 0.5])


@dataclass
class Mixed(FakeStore):
    """The vectors find chunk 1 before 2 and 3, the words of a translation chunk 3 alone."""

    async def keyword(self, collections: Sequence[IndexedCollection], query: str, **given: Any) -> Hits:
        self.hits = () if "Vertrag" in query else ((3, 9.0),)
        return await super().keyword(collections, query, **given)

    async def semantic(self, collections: Sequence[IndexedCollection], vector: Vectors, **given: Any) -> Hits:
        self.hits = ((1, 0.88), (2, 0.87), (3, 0.86))
        return await super().semantic(collections, vector, **given)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # Beside texts in the question's language, texts in the other one count more.
        ({1: UNTERSCHRIEBEN, 2: LEASE, 3: UNTERSCHRIEBEN}, [2, 1, 3]),
        # And what the words of the translation find there.
        ({1: UNTERSCHRIEBEN, 2: LEASE, 3: SIGNED}, [3, 2, 1]),
        # Without a text in the question's language its translation's words do not, in its own language.
        ({1: LEASE, 2: LEASE, 3: SIGNED}, [1, 2, 3]),
        ({1: UNTERSCHRIEBEN, 2: UNTERSCHRIEBEN, 3: UNTERSCHRIEBEN}, [1, 2, 3]),
    ],
)
async def test_texts_of_both_languages_are_evened_out_in_a_mixed_collection(
    texts: Mapping[int, str], expected: list[int]
) -> None:
    """The collection is called an English one, the question is German."""
    store = Mixed({"guides": []}, texts=texts, model=MULTILINGUAL_MODEL)
    search = service(store, FakeEmbedder(MULTILINGUAL_MODEL))
    for _ in range(2):
        request = pb.SearchRequest(query="Wer hat den Vertrag unterschrieben?")
        assert ids(await search.search(NOBODY, request)) == expected


def test_what_a_translation_did_not_find_is_as_similar_to_it_as_the_last_one() -> None:
    def semantic(*scores: tuple[int, float], weight: float) -> list[ArmHits]:
        hits = [Hit(key, score, "guides", 0, 0, passage_pb2.SOURCE_TYPE_FILE, b"") for key, score in scores]
        return [ArmHits(SEMANTIC, hits, weight)]

    translation = Translation("contract", "german", "english", Groups([], {}))
    found, translated = semantic((1, 0.6), (2, 0.4), weight=1), semantic((1, 0.8), (3, 0.6), weight=0.5)
    evened = evening(found, translated, translation, {1: "german", 2: "german", 3: "german"})
    assert {hit.chunk_id: hit.score for hit in evened.hits} == pytest.approx({1: 0.0, 2: 0.3, 3: 0.0})
