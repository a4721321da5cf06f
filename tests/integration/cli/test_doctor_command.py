"""groundline doctor against a gateway that has something wrong."""

import json
from typing import Any

import pytest
from click.testing import Result
from groundline_tests.gateway.running import FakeGateway, Reply, Run, status

COLLECTION: dict[str, Any] = {
    "collectionId": "docs",
    "documentCount": 2,
    "chunkCount": 4,
    "settings": {"embedding": {"model": "mini"}},
}
STATS: dict[str, Any] = {"chunkCount": 4, "vectorCount": 4, "vectorIndex": "VECTOR_INDEX_STATE_NONE"}


@pytest.fixture
def filled(gateway: FakeGateway) -> FakeGateway:
    """A gateway before a sound installation with one collection."""
    gateway.collections["docs"] = COLLECTION
    gateway.stats = STATS
    gateway.answer = {"completed": {"model": "some-model"}}
    return gateway


def findings(result: Result) -> dict[str, list[dict[str, str]]]:
    """Return findings by check."""
    of: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(result.stdout)["findings"]:
        of.setdefault(finding["check"], []).append(finding)
    return of


def test_an_address_where_nothing_listens_is_an_error_that_says_what_to_set(
    groundline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDLINE_GATEWAY_URL", "http://127.0.0.1:1")
    result = groundline("doctor", "--json", code=1)
    found = findings(result)
    assert list(found) == ["gateway", "database"]
    assert found["gateway"][0]["level"] == "error"
    assert "GROUNDLINE_GATEWAY_URL" in found["gateway"][0]["advice"]


def test_a_key_that_is_refused_ends_the_questions_and_names_the_command_that_makes_one(
    groundline: Run, filled: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDLINE_API_KEY", "another")
    result = groundline("doctor", "--json", code=1)
    [finding] = findings(result)["key"]
    assert finding["level"] == "error"
    assert "groundline keys create" in finding["advice"]
    assert "another" not in result.stdout


def test_a_service_that_is_not_ready_is_an_error_while_the_rest_is_still_looked_at(
    groundline: Run, filled: FakeGateway
) -> None:
    filled.healthy = False
    result = groundline("doctor", "--json", code=1)
    found = findings(result)
    assert found["services"][0]["level"] == "error"
    assert found["search"][0]["level"] == "ok"


@pytest.mark.parametrize(
    ("stats", "level", "words"),
    [
        ({"orphanCount": 3}, "error", "3 chunks belong to no document"),
        ({"vectorCount": 1}, "error", "3 of 4 chunks have no vector"),
        ({"vectorIndex": "VECTOR_INDEX_STATE_PENDING"}, "warning", "no index yet"),
        (
            {"states": [{"state": "INGESTION_STATE_FAILED", "documentCount": 2}]},
            "warning",
            "2 documents could not be ingested",
        ),
    ],
)
def test_what_is_wrong_with_a_collection_is_named(
    groundline: Run, filled: FakeGateway, stats: dict[str, Any], level: str, words: str
) -> None:
    filled.stats = STATS | stats
    result = groundline("doctor", "--json", code=int(level == "error"))
    [finding] = findings(result)["collection docs"]
    assert finding["level"] == level
    assert words in finding["message"]
    assert finding["advice"]


def test_the_embedding_models_of_the_collections_are_named(groundline: Run, filled: FakeGateway) -> None:
    filled.collections["more"] = COLLECTION | {"collectionId": "more"}
    filled.collections["old"] = COLLECTION | {
        "collectionId": "old",
        "settings": {"embedding": {"model": "older"}},
    }
    [finding] = findings(groundline("doctor", "--json"))["embedding models"]
    assert finding["level"] == "ok"
    assert "; older in 1 of 3 collections" in finding["message"]


def test_a_missing_search_arm_is_an_error_with_its_remedy(groundline: Run, filled: FakeGateway) -> None:
    filled.degraded = [
        {
            "component": "COMPONENT_KEYWORD_ARM",
            "reason": "LEXICAL_INDEX_UNSOUND",
            "message": "the keyword index of docs is being rebuilt",
        }
    ]
    result = groundline("doctor", "--json", code=1)
    [finding] = findings(result)["search"]
    assert finding["level"] == "error"
    assert "rebuilt the index" in finding["advice"]


def test_a_strategy_without_model_is_a_warning_with_its_remedy(groundline: Run, filled: FakeGateway) -> None:
    settings = {"embedding": {"model": "mini"}, "rerank": {"strategy": "RERANK_STRATEGY_CROSS_ENCODER"}}
    filled.collections["docs"] = COLLECTION | {"settings": settings}
    [sound] = findings(groundline("doctor", "--json"))["strategy cross_encoder"]
    assert (sound["level"], sound["message"]) == ("ok", "its model answers for docs")
    filled.degraded = [
        {"component": "COMPONENT_RERANKER", "reason": "MODEL_NOT_LOADED", "message": "it cannot be loaded"}
    ]
    result = groundline("doctor", "--json")
    [finding] = findings(result)["strategy cross_encoder"]
    assert (finding["level"], finding["message"]) == ("warning", "it cannot be loaded")
    assert "has the model's files" in finding["advice"]


def test_a_model_provider_that_refuses_the_key_is_an_error(
    groundline: Run, filled: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = filled.reply

    def refuse(_: FakeGateway, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> Reply:
        if path == "/api/answer":
            return Reply(
                500, status(13, "the generator: the provider refuses the key", "PROVIDER_ACCESS_DENIED")
            )
        return reply(method, path, query, body)

    monkeypatch.setattr(FakeGateway, "reply", refuse)
    result = groundline("doctor", "--json", code=1)
    [finding] = findings(result)["answer"]
    assert "give the generator a key" in finding["advice"]


def test_a_sound_installation_has_no_error_and_says_that_the_database_was_not_looked_at(
    groundline: Run, filled: FakeGateway
) -> None:
    result = groundline("doctor")
    assert "the generator answers by some-model" in result.stdout
    assert "skipped  database: no database is known" in result.stdout
    assert result.stdout.endswith("0 errors, 0 warnings\n")


def test_an_unreached_database_is_an_error_without_its_password(groundline: Run, filled: FakeGateway) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/x"
    result = groundline("doctor", "--json", "--database-url", url, code=1)
    assert findings(result)["database"][0]["level"] == "error"
    assert "hunter2" not in result.stdout
