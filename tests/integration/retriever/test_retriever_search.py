"""The retriever over gRPC, on real PostgreSQL."""

from typing import Any, cast

import pytest
from groundline.v1 import error_pb2, options_pb2, passage_pb2
from groundline_runtime.errors import (
    FailedPreconditionError,
    GroundlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from groundline_tests.retriever.library import (
    BREAD,
    LEADER,
    LEASES,
    SECRET,
    Client,
    Options,
    scores,
    stages,
    struct,
    texts,
)

# Bad input


async def test_every_wrong_field_is_named(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve(
            " \n ",
            ["guides", "Not An Id"],
            Options(
                mode=cast("Any", 77), keyword_limit=0, semantic_limit=1001, ef_search=-1,
                iterative_scan=cast("Any", 9),
                min_similarity=1.5, min_bm25=float("nan"), adjacent_chunks=11,
            ),
            rerank=options_pb2.RerankOptions(top_k=0), weak_similarity=2, additional_queries=["a", " "],
        )  # fmt: skip
    assert {violation.field for violation in caught.value.violations} == {
        "query", "collection_ids[1]", "options.retrieval.mode", "options.retrieval.keyword_limit",
        "options.retrieval.semantic_limit", "options.retrieval.ef_search", "options.retrieval.iterative_scan",
        "options.retrieval.min_similarity", "options.retrieval.min_bm25", "options.retrieval.adjacent_chunks",
        "options.rerank.top_k", "weak_similarity", "additional_queries[1]",
    }  # fmt: skip


async def test_a_query_has_8000_characters_and_a_request_100_collections_at_most(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve("x" * 8001, ["guides"] * 101)
    assert [violation.field for violation in caught.value.violations] == ["query", "collection_ids"]
    await retrieve("x" * 8000, ["guides"] * 100)


async def test_a_wrong_filter_is_refused_with_the_paths_of_its_mistakes(retrieve: Client) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await retrieve("", filter=struct({"year": {"$above": 1}, "$or": [{"a": {"$in": 2}}]}))
    assert [violation.field for violation in caught.value.violations] == [
        "query", "filter.$or[0].a.$in", "filter.year.$above"
    ]  # fmt: skip


@pytest.mark.parametrize("query", ["'", "lease AND (", "🙂", "%s $1", "the of"])
async def test_any_text_is_a_query(retrieve: Client, query: str) -> None:
    assert not (await retrieve(query, ["guides"])).degraded


async def test_an_unknown_collection_and_one_that_may_not_be_read_look_the_same(retrieve: Client) -> None:
    seen = []
    for unseen in ("nowhere", "board"):
        with pytest.raises(NotFoundError) as caught:
            await retrieve(collections=["guides", unseen], principals="user:eve")
        seen.append((caught.value.reason, caught.value.message.replace(unseen, "X")))
    assert seen[0] == seen[1] == ("COLLECTION_NOT_FOUND", "no such collection: X")


async def test_another_embedding_model_is_refused_with_both_names(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("old", [LEASES], model="acme/old-model", readers=["user:archivist"])
    for mode in (options_pb2.RETRIEVAL_MODE_HYBRID, options_pb2.RETRIEVAL_MODE_SEMANTIC):
        with pytest.raises(FailedPreconditionError) as caught:
            await retrieve(collections=["old"], options=Options(mode=mode), principals="user:archivist")
        assert caught.value.reason == "EMBEDDING_MODEL_MISMATCH"
        assert "acme/old-model" in caught.value.message
        assert corpus.embedder.model in caught.value.message
    keyword = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD)
    found = await retrieve(collections=["old"], options=keyword, principals="user:archivist")
    assert texts(found) == {LEASES}


# Faults


async def test_with_another_lexical_backend_vectors_alone_are_searched(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("foreign", [LEASES], lexical_backend="elsewhere", readers=["user:archivist"])
    found = await retrieve(collections=["foreign"], principals="user:archivist")
    assert texts(found) == {LEASES}
    [degradation] = found.degraded
    assert (degradation.component, degradation.reason) == (
        passage_pb2.COMPONENT_KEYWORD_ARM,
        error_pb2.LEXICAL_BACKEND_MISMATCH,
    )
    with pytest.raises(FailedPreconditionError, match="indexed with elsewhere"):
        await retrieve(
            collections=["foreign"],
            options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD),
            principals="user:archivist",
        )


async def test_a_lost_bm25_index_degrades_and_is_not_shown(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("torn", [LEASES], readers=["user:archivist"])
    table = f"chunks_p{await corpus.partition('torn')}"
    await corpus.connection.execute(f"DROP INDEX {table}_bm25")
    found = await retrieve(collections=["torn"], principals="user:archivist")
    assert texts(found) == {LEASES}
    [degradation] = found.degraded
    assert degradation.component == passage_pb2.COMPONENT_KEYWORD_ARM
    # It fails until the next check finds that the index is gone.
    assert degradation.reason in (error_pb2.INTERNAL, error_pb2.LEXICAL_INDEX_UNSOUND)
    assert table not in degradation.message
    with pytest.raises(GroundlineError) as caught:
        await retrieve(
            collections=["torn"],
            options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD),
            principals="user:archivist",
        )
    assert table not in caught.value.message


async def test_a_collection_deleted_meanwhile_may_be_asked_for_again(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("gone", [LEASES], readers=["user:archivist"])
    await corpus.connection.execute(f"DROP TABLE chunks_p{await corpus.partition('gone')}")
    with pytest.raises(UnavailableError) as caught:
        await retrieve(collections=["gone"], principals="user:archivist")
    assert caught.value.reason == "COLLECTION_CHANGED"


# Access


async def test_without_principals_only_what_is_unrestricted_is_found(retrieve: Client) -> None:
    assert texts(await retrieve(collections=["drafts"])) == {LEASES}
    assert SECRET not in texts(await retrieve("merger board Friday"))


@pytest.mark.parametrize(
    ("principals", "sees"),
    [("user:eve", False), ("group:boards", False), ("user:eve,group:board", True), ("user:clerk", True)],
)
async def test_readers_and_writers_read_a_collection(retrieve: Client, principals: str, sees: bool) -> None:
    found = await retrieve("merger board Friday", principals=principals)
    assert ("board" in {candidate.chunk.collection_id for candidate in found.passages}) is sees


@pytest.mark.parametrize("mode", ["HYBRID", "SEMANTIC", "KEYWORD"])
async def test_a_hidden_document_takes_no_place_and_leaves_no_gap(retrieve: Client, mode: str) -> None:
    options = Options(
        mode=options_pb2.RetrievalMode.Value(f"RETRIEVAL_MODE_{mode}"), keyword_limit=1, semantic_limit=1
    )
    # For this query the hidden document is the best; with a limit of 1 the other one must still be found.
    query = "merger lease board Friday"
    hidden = await retrieve(query, ["drafts"], options)
    assert texts(hidden) == {LEASES}
    for candidate in hidden.passages:
        assert {
            arm.rank for arm in (candidate.explanation.keyword, candidate.explanation.semantic) if arm.rank
        } == {1}
    shown = await retrieve(query, ["drafts"], options, principals="group:board")
    assert texts(shown) == {SECRET}


async def test_scores_do_not_tell_what_may_not_be_read(retrieve: Client, corpus: Any) -> None:
    query = "A replica that lost its lease"

    async def shown() -> list[tuple[str, float, float]]:
        found = await retrieve(query, ["half-hidden"])
        return [
            (each.chunk.text, each.explanation.keyword.score, each.explanation.semantic.score)
            for each in found.passages
        ]

    await corpus.collection("half-hidden", [LEASES, LEADER, BREAD])
    await corpus.add("half-hidden", [BREAD], allowed_principals=["group:board"])
    before = await shown()
    assert before[0][0] == LEASES
    await corpus.add("half-hidden", [f"{LEASES} {n}" for n in range(40)], allowed_principals=["group:board"])
    assert await shown() == before
    all_of_it = await retrieve(query, ["half-hidden"], principals="group:board")
    assert len(all_of_it.passages) > len(before)


# Searching


async def test_hybrid_is_the_union_with_each_arms_rank_and_score(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"])
    by_text = {candidate.chunk.text: candidate for candidate in found.passages}
    assert set(by_text) == {LEASES, LEADER, BREAD}
    assert {by_text[LEASES].explanation.keyword.rank, by_text[LEADER].explanation.keyword.rank} == {1, 2}
    assert by_text[LEASES].explanation.keyword.score > 0
    assert not by_text[BREAD].explanation.HasField("keyword")
    assert by_text[BREAD].explanation.semantic.rank == 3
    assert stages(found) == {
        passage_pb2.STAGE_EMBEDDING,
        passage_pb2.STAGE_KEYWORD_SEARCH,
        passage_pb2.STAGE_SEMANTIC_SEARCH,
        *RANKED,
    }
    assert not found.degraded


RANKED = (passage_pb2.STAGE_RETRIEVING, passage_pb2.STAGE_RERANKING, passage_pb2.STAGE_FETCHING)


async def test_a_model_orders_what_was_found(retrieve: Client) -> None:
    by_a_model = options_pb2.RerankOptions(strategy=options_pb2.RERANK_STRATEGY_CROSS_ENCODER, top_k=2)
    found = await retrieve("replica", ["guides", "drafts"], rerank=by_a_model)
    assert [passage.score for passage in found.passages] == [1.0, 1.0]
    assert [each.name for each in found.passages[0].explanation.components] == ["cross_encoder"]
    assert not found.degraded


async def test_several_queries_are_one_search(retrieve: Client) -> None:
    one = await retrieve("bread", ["guides"])
    assert not next(each for each in one.passages if each.chunk.text == LEADER).explanation.HasField(
        "keyword"
    )
    both = await retrieve("bread", ["guides"], additional_queries=["leader lease"])
    found = next(each for each in both.passages if each.chunk.text == LEADER)
    assert found.explanation.keyword.rank == 1


async def test_the_semantic_score_is_the_cosine_similarity(corpus: Any, retrieve: Client) -> None:
    query = "lease of a replica"
    found = await retrieve(query, ["guides"], Options(mode=options_pb2.RETRIEVAL_MODE_SEMANTIC))
    vector = await corpus.embedder.embed_query(query)
    for candidate in found.passages:
        [document] = await corpus.embedder.embed_documents([candidate.chunk.text])
        assert candidate.explanation.semantic.score == pytest.approx(float(vector @ document), abs=2e-3)
        assert not candidate.explanation.HasField("keyword")


async def test_vectors_come_if_asked_for_and_with_the_passages_alone(corpus: Any, retrieve: Client) -> None:
    options = Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD, adjacent_chunks=1)
    assert not any(each.vector for each in (await retrieve("leases", ["guides"], options)).passages)
    found = await retrieve("leases", ["guides"], options, include_vectors=True)
    assert found.passages
    for passage in found.passages:
        [vector] = await corpus.embedder.embed_documents([passage.chunk.text])
        assert list(passage.vector) == pytest.approx(list(map(float, vector)), abs=2e-3)


async def test_a_document_gives_no_more_passages_than_it_may(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("long")
    text = "A lease of one. A lease of two. A lease of three."
    await corpus.document("long", [(text[:15], 0), (text[16:31], 16), (text[32:], 32)])
    await corpus.add("long", ["A lease of another."])
    everything = await retrieve("lease", ["long"])
    found = await retrieve("lease", ["long"], rerank=options_pb2.RerankOptions(max_per_document=1))
    documents = [each.chunk.document_id for each in everything.passages]
    assert len(documents) == 4
    assert [each.chunk.document_id for each in found.passages] == list(dict.fromkeys(documents))


def corrections(found: Any) -> list[tuple[str, str]]:
    return [(each.given, each.used) for each in found.corrections]


async def test_a_misspelled_word_is_corrected_and_it_is_said(retrieve: Client) -> None:
    as_given = await retrieve("Replcia leaes", ["guides"], Options(correct_spelling=False))
    assert not corrections(as_given)
    assert not scores(as_given, "keyword")
    found = await retrieve("Replcia leaes", ["guides"], additional_queries=["leaes"], include_highlights=True)
    assert corrections(found) == [("Replcia", "Replica"), ("leaes", "lease")]
    right = await retrieve("replica lease", ["guides"], additional_queries=["lease"])
    assert scores(found, "keyword") == scores(right, "keyword")
    assert found.passages[0].highlights.words


async def test_a_word_that_a_chunk_has_is_no_mistake(corpus: Any, retrieve: Client) -> None:
    await corpus.collection("near")
    await corpus.add("near", ["The lease of a replica.", "The leash of a dog."])
    only = struct({"$title": "Nothing has this title"})
    for options in (Options(), Options(mode=options_pb2.RETRIEVAL_MODE_SEMANTIC)):
        found = await retrieve("leash", ["near"], options, rerank=options_pb2.RerankOptions(top_k=1))
        assert not corrections(found)
    assert not corrections(await retrieve("leahs", ["near"], filter=only)), (
        "nothing was found to compare with"
    )


async def test_what_the_caller_may_not_read_corrects_nothing_and_counts_as_nothing(
    corpus: Any, retrieve: Client
) -> None:
    await corpus.collection("half")
    await corpus.add("half", ["The lease of a replica."])
    await corpus.add("half", ["The leaze of the board, and a merger."], allowed_principals=["group:board"])
    assert corrections(await retrieve("leaze", ["half"])) == [("leaze", "lease")]
    assert not corrections(await retrieve("leaze", ["half"], principals="group:board"))
    assert not corrections(await retrieve("mergre", ["half"]))
    assert corrections(await retrieve("mergre", ["half"], principals="group:board")) == [("mergre", "merger")]


async def test_words_of_the_queries_are_shown_where_they_are_asked_for(retrieve: Client) -> None:
    plain = await retrieve("leases", ["guides"])
    assert not any(each.HasField("highlights") for each in plain.passages)
    found = await retrieve("lease", ["guides"], additional_queries=["bread"], include_highlights=True)
    shown = {
        each.chunk.text: [
            each.chunk.text[one.start_offset : one.end_offset].lower() for one in each.highlights.words
        ]
        for each in found.passages
    }
    assert shown.keys() == {LEASES, LEADER, BREAD}
    assert set(shown[LEASES]) <= {"lease", "leases"}
    assert shown[LEASES]
    assert shown[BREAD] == ["bread"]
    for each in found.passages:
        snippet = each.highlights.snippet
        assert each.chunk.text[snippet.start_offset : snippet.end_offset] == each.chunk.text.strip()


async def test_keyword_mode_does_not_embed(retrieve: Client) -> None:
    found = await retrieve(collections=["guides"], options=Options(mode=options_pb2.RETRIEVAL_MODE_KEYWORD))
    assert texts(found) == {LEASES, LEADER}
    assert stages(found) == {passage_pb2.STAGE_KEYWORD_SEARCH, *RANKED}


async def test_limits_and_thresholds_hold_per_arm(retrieve: Client) -> None:
    limited = await retrieve(collections=["guides"], options=Options(keyword_limit=1, semantic_limit=2))
    assert sum(candidate.explanation.HasField("keyword") for candidate in limited.passages) == 1
    assert sum(candidate.explanation.HasField("semantic") for candidate in limited.passages) == 2
    strict = await retrieve(collections=["guides"], options=Options(min_similarity=0.99, min_bm25=1000))
    assert not strict.passages
    loose = await retrieve(collections=["guides"], options=Options(min_similarity=-1, min_bm25=0))
    assert texts(loose) == {LEASES, LEADER, BREAD}


async def test_search_list_and_scan_can_be_set_for_one_request(retrieve: Client) -> None:
    for scan in ("OFF", "STRICT_ORDER", "RELAXED_ORDER"):
        options = Options(
            ef_search=7,
            semantic_limit=3,
            iterative_scan=options_pb2.IterativeScan.Value(f"ITERATIVE_SCAN_{scan}"),
        )
        assert texts(await retrieve(collections=["guides"], options=options)) == {LEASES, LEADER, BREAD}


async def test_a_collections_defaults_hold_if_a_request_sets_none(corpus: Any, retrieve: Client) -> None:
    await corpus.collection(
        "tuned",
        [LEASES, LEADER, BREAD],
        readers=["user:archivist"],
        settings={"retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD", "keywordLimit": 1, "later": True}},
    )
    found = await retrieve(collections=["tuned"], principals="user:archivist")
    assert len(found.passages) == 1
    assert not found.passages[0].explanation.HasField("semantic")
    found = await retrieve(
        collections=["tuned"],
        options=Options(mode=options_pb2.RETRIEVAL_MODE_HYBRID, keyword_limit=2),
        principals="user:archivist",
    )
    assert len(found.passages) == 3


async def test_several_collections_are_searched_and_each_has_its_own_ranks(retrieve: Client) -> None:
    found = await retrieve(collections=["guides", "drafts", "empty", "guides"])
    firsts = {
        candidate.chunk.collection_id
        for candidate in found.passages
        if candidate.explanation.keyword.rank == 1
    }
    assert firsts == {"guides", "drafts"}
    assert len({candidate.chunk.chunk_id for candidate in found.passages}) == len(found.passages)


async def test_an_empty_collection_has_nothing(retrieve: Client) -> None:
    found = await retrieve(collections=["empty"])
    assert not found.passages
    assert not found.degraded
