import json
from collections.abc import Sequence

import pytest
from groundline_client import from_json
from groundline_client.models import AnswerResponse, SearchResponse
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

SOURCES = [
    {"number": 1, "title": "Leave\x1b[2J", "uri": "handbook/leave.md"},
    {"number": 2, "title": "Travel", "uri": "handbook/travel.md"},
]


COMPLETED = {"finishReason": "FINISH_REASON_STOP", "citations": [{"sourceNumber": 1}], "degraded": []}


CHAT = [
    {"sequence": 1, "started": {"threadId": "thread-1", "messageId": "m"}},
    {"sequence": 2, "status": {"stage": "STAGE_RETRIEVING"}},
    {"sequence": 3, "sources": {"sources": SOURCES}},
    {"sequence": 4, "delta": {"text": "You have 27 \x1b]0;owned\x07days"}},
    {"sequence": 5, "delta": {"text": " [1]."}},
    {"sequence": 6, "completed": COMPLETED},
]


# ask


def test_an_answer_that_fails_midway_says_so(groundline: Run, gateway: FakeGateway) -> None:
    error = {"code": 14, "reason": "RETRIEVER_UNAVAILABLE", "message": "the retriever is down"}
    gateway.chat_events = [*CHAT[:4], {"sequence": 5, "error": error}]
    result = groundline("ask", "x", code=1)
    assert result.stdout.startswith("You have 27")
    assert result.stderr == "error: the retriever is down (RETRIEVER_UNAVAILABLE)\n"


def test_an_answer_that_just_ends_says_so(groundline: Run, gateway: FakeGateway) -> None:
    gateway.chat_events = CHAT[:4]
    result = groundline("ask", "x", code=1)
    assert "broke off" in result.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_a_refusal_has_its_own_exit_code(groundline: Run, gateway: FakeGateway, as_json: bool) -> None:
    text = "I cannot answer this from the documents."
    refused = {"finishReason": "FINISH_REASON_NO_ANSWER"}
    gateway.chat_events = [*CHAT[:3], {"delta": {"text": text}}, {"completed": refused}]
    gateway.answer = {"answer": text, "completed": refused}
    result = groundline("ask", "x", *(["--json"] if as_json else []), code=3)
    assert text in result.stdout
    assert "[1]" not in result.stdout


def test_what_an_answer_went_without_is_noted(groundline: Run, gateway: FakeGateway) -> None:
    degraded = [
        {"component": "COMPONENT_KEYWORD_ARM", "reason": "DEADLINE_EXCEEDED", "message": "BM25 was late"}
    ]
    gateway.chat_events = [*CHAT[:5], {"completed": {**COMPLETED, "degraded": degraded}}]
    result = groundline("ask", "x")
    assert "note: without keyword arm: BM25 was late" in result.stderr


def test_a_name_with_a_line_feed_takes_one_line(groundline: Run, gateway: FakeGateway) -> None:
    sources = {"sources": [{"number": 1, "title": "Leave", "uri": "leave.md\n[2] Travel"}]}
    gateway.chat_events = [*CHAT[:3], {"sequence": 3, "sources": sources}, *CHAT[4:]]
    assert groundline("ask", "How many days?").stdout.endswith("\n[1] Leave — leave.md [2] Travel\n")


def test_an_answer_is_followed_by_the_sources_it_cites(groundline: Run, gateway: FakeGateway) -> None:
    gateway.chat_events = CHAT
    result = groundline("ask", "How many days?", "--collection", "a", "--collection", "b", "--thread", "t")
    assert result.stdout == (
        "You have 27 \ufffd]0;owned\ufffddays [1].\n\n[1] Leave\ufffd[2J — handbook/leave.md\n"
    )
    assert "also found:\n[2] Travel — handbook/travel.md\n" in result.stderr
    assert "thread: thread-1" in result.stderr
    ((_, _, body),) = gateway.requests
    assert body == {
        "query": "How many days?",
        "collectionIds": ["a", "b"],
        "threadId": "t",
        "options": {"appendOnly": True},
    }


def test_what_was_searched_for_instead_is_told(groundline: Run, gateway: FakeGateway) -> None:
    rewritten = {"stage": "STAGE_RETRIEVING", "rewrittenQuery": "Leave in Kiel?", "subQueries": ["a?", "b?"]}
    gateway.chat_events = [
        CHAT[0],
        {"status": rewritten},
        {"status": {"stage": "STAGE_RERANKING"}},
        *CHAT[2:],
    ]
    result = groundline("ask", "And in Kiel?")
    assert "searched for: Leave in Kiel?\nsearched for: a?\nsearched for: b?\n" in result.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_effort_and_model_are_passed_on(groundline: Run, gateway: FakeGateway, form: Sequence[str]) -> None:
    gateway.answer, gateway.chat_events = {"answer": "Yes.", "completed": COMPLETED}, CHAT
    groundline("ask", "x", "--effort", "thorough", "--model", "m", *form)
    groundline("ask", "x", *form)
    asked = [body.get("options", {}) for _, _, body in gateway.requests]
    assert [(each.get("effort"), each.get("generation")) for each in asked] == [
        ("EFFORT_THOROUGH", {"model": "m"}),
        (None, None),
    ]


def test_an_answer_may_be_asked_for_again_without_paying_twice(groundline: Run, gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "Yes.", "completed": COMPLETED}
    gateway.next_replies = [Reply(503, status(14, "starting", "UNAVAILABLE"))]
    groundline("ask", "x", "--json")
    first, second = (body["requestId"] for _, _, body in gateway.requests)
    assert first == second


# threads


def test_a_thread_that_is_not_there_is_an_error(groundline: Run, gateway: FakeGateway) -> None:
    groundline("threads", "show", "gone", code=1)
    gateway.threads["t"] = [{"role": "USER", "content": "q"}]
    groundline("threads", "delete", "t", input="n\n", code=1)
    assert "t" in gateway.threads


def test_threads_are_listed_shown_and_deleted(groundline: Run, gateway: FakeGateway) -> None:
    gateway.threads = {
        "t1": [
            {"role": "USER", "content": "How many days?"},
            {"role": "ASSISTANT", "content": "27 [1].\x1b[2J"},
            {"role": "USER", "content": "And then?"},
            {"role": "ASSISTANT", "content": "Th", "finishReason": "FINISH_REASON_CANCELLED"},
        ],
        "t2": [{"role": "USER", "content": "q"}],
        "t3": [{"role": "USER", "content": "r"}],
    }
    listed = groundline("threads", "list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["THREAD", "t1", "t2", "t3"]
    shown = groundline("threads", "show", "t1").stdout
    assert shown == ("> How many days?\n\n27 [1].\ufffd[2J\n\n> And then?\n\nTh\n(cancelled)\n\n")
    as_json = json.loads(groundline("threads", "show", "t1", "--json").stdout)
    assert [each["content"] for each in as_json["messages"]] == [
        each["content"] for each in gateway.threads["t1"]
    ]
    groundline("threads", "delete", "t1", "--yes")
    assert list(gateway.threads) == ["t2", "t3"]


def test_an_answer_is_rated_by_default_the_last_one(groundline: Run, gateway: FakeGateway) -> None:
    gateway.threads = {
        "t1": [
            {"role": "USER", "content": "How many days?", "messageId": "m1"},
            {"role": "ASSISTANT", "content": "27", "messageId": "m2"},
            {"role": "USER", "content": "And then?", "messageId": "m3"},
            {"role": "ASSISTANT", "content": "28", "messageId": "m4"},
        ],
        "t2": [{"role": "USER", "content": "q", "messageId": "m5"}],
    }
    bad = ("threads", "rate", "t1", "bad", "--problem", "wrong-source", "--comment", "Not there.")
    assert groundline(*bad).stdout == "rated bad\n"
    groundline("threads", "rate", "t1", "good", "--message", "m2")
    shown = groundline("threads", "show", "t1").stdout
    assert "27\n(rated good)\n" in shown
    assert "28\n(rated bad, wrong source, Not there.)\n" in shown
    assert groundline("threads", "rate", "t1", "none").stdout == "took the rating back\n"
    assert "(rated bad" not in groundline("threads", "show", "t1").stdout
    unanswered = groundline("threads", "rate", "t2", "good", code=1)
    assert "the thread has no answer: t2" in unanswered.stderr


def test_an_answer_as_json_is_one_line(groundline: Run, gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "Ja \x9b2J [1].", "sources": SOURCES, "completed": COMPLETED}
    result = groundline("ask", "x", "--json")
    assert from_json(AnswerResponse, json.loads(result.stdout)) == from_json(AnswerResponse, gateway.answer)
    assert result.stdout.count("\n") == 1
    assert "\x9b" not in result.stdout


# search


def test_every_wrong_field_of_a_search_is_shown(groundline: Run, gateway: FakeGateway) -> None:
    fields = [
        {"field": "query", "description": "must not be empty"},
        {"field": "filter", "description": "odd"},
    ]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}
    gateway.next_replies = [Reply(400, status(3, "the request is wrong", "INVALID_FIELDS", detail))]
    result = groundline("search", "", code=1)
    assert result.stderr.splitlines()[1:] == ["  query: must not be empty", "  filter: odd"]


def test_passages_are_ranked_with_score_title_uri_and_snippet(groundline: Run, gateway: FakeGateway) -> None:
    chunk = {"title": "Leave", "uri": "leave.md", "text": "27 days\n\n" + "word " * 200}
    gateway.passages = [{"score": 0.5, "chunk": chunk}, {"score": 0.25, "chunk": {"uri": "b.md"}}]
    result = groundline("search", "leave", "--mode", "keyword", "--top-k", "3", "--collection", "docs")
    lines = result.stdout.splitlines()
    assert lines[0] == "  1. 0.5000  Leave — leave.md"
    assert lines[1].startswith("     27 days word word")
    assert lines[1].endswith("word…")
    assert lines[2] == "  2. 0.2500   — b.md"
    ((_, _, body),) = gateway.requests
    assert body["options"] == {"rerank": {"topK": 3}, "retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD"}}


def test_every_option_of_a_search_reaches_the_gateway(groundline: Run, gateway: FakeGateway) -> None:
    options = (
        "--filter", '{"team": {"$in": ["ops"]}}', "--keyword-limit", "20", "--semantic-limit", "30",
        "--min-bm25", "0", "--min-similarity", "-0.5", "--ef-search", "200", "--iterative-scan",
        "relaxed_order", "--adjacent", "2", "--index", "candidate", "--fusion", "rrf", "--rrf-k", "10",
        "--keyword-weight", "0",
        "--semantic-weight", "2", "--strategy", "weighted", "--weight", "recency=0.5", "--weight", "vector=1",
        "--type-priority", "web=0.2", "--model", "m", "--deduplication-threshold", "0", "--mmr-lambda", "0.7",
        "--min-score", "-1", "--max-per-document", "3", "--explain",
    )  # fmt: skip
    groundline("search", "x", *options)
    ((_, _, body),) = gateway.requests
    assert body["filter"] == {"team": {"$in": ["ops"]}}
    assert body["options"] == {
        "retrieval": {
            "keywordLimit": 20, "semanticLimit": 30, "minBm25": 0, "minSimilarity": -0.5, "efSearch": 200,
            "iterativeScan": "ITERATIVE_SCAN_RELAXED_ORDER", "adjacentChunks": 2,
            "index": "INDEX_CHOICE_CANDIDATE",
        },
        "rerank": {
            "fusion": "FUSION_METHOD_RRF", "rrfK": 10, "keywordWeight": 0, "semanticWeight": 2,
            "strategy": "RERANK_STRATEGY_WEIGHTED", "weights": {"recency": 0.5, "vector": 1},
            "typePriorities": {"web": 0.2}, "model": "m", "deduplicationThreshold": 0, "mmrLambda": 0.7,
            "minScore": -1, "maxPerDocument": 3, "includeCut": True,
        },
    }  # fmt: skip


def test_an_explained_search_is_a_table_of_all_scores(groundline: Run, gateway: FakeGateway) -> None:
    explanation = {
        "keyword": {"rank": 2, "score": 7.25},
        "fusedScore": 0.9,
        "fusedRank": 3,
        "components": [{"name": "vector", "value": 0.25, "weight": 0.4}],
    }
    found = {
        "passages": [
            {
                "score": 0.5,
                "chunk": {"title": "Leave\x1b[2J", "uri": "leave.md", "chunkIndex": 4},
                "explanation": explanation,
                "alternatives": [{"chunk": {"uri": "copy.md"}, "similarity": 0.95}],
            },
            {"score": 0.4, "chunk": {"uri": "b.md"}, "explanation": {"semantic": {"rank": 1, "score": 0.75}}},
        ],
        "cut": [{"chunkId": "77", "rule": "CUT_RULE_MIN_SCORE", "explanation": {"finalScore": 0.1}}],
        "timings": [{"stage": "STAGE_RETRIEVING", "durationMs": 4.25}],
        "degraded": [{"component": "COMPONENT_RERANKER", "reason": "RERANKER_LATE", "message": "late"}],
    }
    gateway.next_replies = [Reply(200, found)]
    result = groundline("search", "leave", "--explain")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["#", "SCORE", "FUSED", "BM25", "COSINE", "VECTOR", "×0.4", "PASSAGE"]
    assert lines[1][:8] == ["1", "0.5000", "0.9000", "#3", "7.250", "#2", "–", "0.250"]
    assert lines[1][-2:] == ["leave.md", "[4]"]
    assert lines[2][:8] == ["2", "0.4000", "0.0000", "#0", "–", "0.750", "#1", "–"]
    assert lines[4:7] == [
        ["near-duplicates"],
        ["OF", "SIMILARITY", "PASSAGE"],
        ["1", "0.950", "—", "copy.md", "[0]"],
    ]
    assert lines[8] == ["cut"]
    assert lines[10] == ["min_score", "0.1000", "0.0000", "#0", "–", "–", "77"]
    assert lines[12] == ["retrieving", "4.2", "ms"]
    assert "\x1b" not in result.stdout
    assert "late" in result.stderr


def test_adjacent_chunks_stand_around_the_passage(groundline: Run, gateway: FakeGateway) -> None:
    gateway.passages = [
        {
            "chunk": {"uri": "a.md", "text": "two", "chunkIndex": 2},
            "adjacentChunks": [{"text": "one", "chunkIndex": 1}, {"text": "three", "chunkIndex": 3}],
        }
    ]
    lines = groundline("search", "x", "--adjacent", "1").stdout.splitlines()
    assert [line.strip() for line in lines[1:]] == ["one", "two", "three"]


def test_the_part_with_the_words_of_the_query_is_shown_in_bold(groundline: Run, gateway: FakeGateway) -> None:
    text = "Before it.\nThe \x1b[2J lease\nis renewed.  After it."
    at, end = text.index("The"), text.index("  After")
    found = {"startOffset": text.index("lease"), "endOffset": text.index("\nis")}
    gateway.passages = [
        {
            "chunk": {"uri": "a.md", "text": text},
            "highlights": {"words": [found], "snippet": {"startOffset": at, "endOffset": end}},
        }
    ]
    [_, plain] = groundline("search", "x").stdout.splitlines()
    assert plain == "     …The �[2J lease is renewed.…"
    [_, styled] = groundline("search", "x", color=True).stdout.splitlines()
    assert styled == "     …The �[2J \x1b[1mlease\x1b[0m is renewed.…"
    assert gateway.requests[-1][2]["includeHighlights"] is True


def test_corrected_words_are_told(groundline: Run, gateway: FakeGateway) -> None:
    found = {"passages": [{"chunk": {"uri": "a.md"}}], "corrections": [{"given": "leaes", "used": "lease"}]}
    gateway.next_replies = [Reply(200, found)]
    result = groundline("search", "leaes", "--no-correct-spelling")
    assert result.stderr == 'searched for "lease" in place of "leaes"\n'
    assert gateway.requests[-1][2]["options"] == {"retrieval": {"correctSpelling": False}}


def test_facets_are_tables_of_values(groundline: Run, gateway: FakeGateway) -> None:
    values = [{"value": "rot\x1b", "documentCount": 12}, {"value": None, "documentCount": 3}]
    facet = {"field": "team", "values": values, "hasMore": True}
    gateway.next_replies = [Reply(200, {"passages": [{"chunk": {"uri": "a.md"}}], "facets": [facet]})]
    result = groundline("search", "x", "--facet", "team", "--facet", "$mime_type")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[-5:] == [
        ["team"],
        ["VALUE", "DOCUMENTS"],
        ['"rot\\u001b"', "12"],
        ["null", "3"],
        ["and", "more"],
    ]
    assert gateway.requests[-1][2]["facets"] == ["team", "$mime_type"]


def test_a_search_as_json_is_the_response(groundline: Run, gateway: FakeGateway) -> None:
    gateway.passages = [{"score": 0.5, "chunk": {"uri": "a"}}]
    gateway.degraded = [{"component": "COMPONENT_SEMANTIC_ARM", "reason": "LATE"}]
    result = groundline("search", "x", "--json")
    response = {"passages": gateway.passages, "degraded": gateway.degraded}
    assert from_json(SearchResponse, json.loads(result.stdout)) == from_json(SearchResponse, response)


def test_a_search_that_finds_nothing_says_so(groundline: Run, gateway: FakeGateway) -> None:
    result = groundline("search", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing found\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("search", "x", "--min-score", "nan"), 1, "not JSON compliant: nan"),
        (("search", "x", "--filter", '{"year": Infinity}'), 1, "not JSON compliant: inf"),
        (("search", "x", "--filter", '{"a":' * 100_000), 2, "'--filter': not JSON: maximum recursion"),
        (("ask", "caf\udce9"), 1, "is not Unicode text"),
        (("stats", ""), 1, "collectionId is empty"),
    ],
)
def test_what_cannot_be_sent_is_named(
    groundline: Run, arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in groundline(*arguments, code=code).output
