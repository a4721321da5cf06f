import json
from pathlib import Path

import pytest
from groundline_tests.gateway.running import FakeGateway, Run

SOURCE = {"number": 1, "title": "Leave\x1b[2J", "uri": "handbook/leave.md"}


def claim(number: int, verdict: str, **fields: object) -> dict[str, object]:
    given = {"number": number, "text": f"Claim {number}.", "verdict": f"VERDICT_{verdict}", **fields}
    return {"sequence": number + 1, "claim": {"probability": 0.75, **given}}


REFUTED = claim(
    2,
    "REFUTED",
    message='a passage has "27" in place of "28"',
    evidence=[{"source": SOURCE, "text": "27 days.", "words": ["27"]}],
)
COMPLETED = {
    "supportedCount": 1,
    "refutedCount": 1,
    "notFoundCount": 1,
    "model": "rules",
    "degraded": [],
    "judgedBy": [{"model": "rules", "claimCount": 2}, {"model": "reader", "claimCount": 1}],
}
EVENTS = [
    {"sequence": 1, "started": {"claimCount": 3}},
    claim(1, "SUPPORTED", evidence=[{"source": SOURCE, "text": "One."}]),
    REFUTED,
    claim(3, "NOT_FOUND", message="no passage that was found says so", evidence=[{"text": "Other."}]),
    {"sequence": 5, "completed": COMPLETED},
]


@pytest.mark.parametrize("options", [["x", "--file", __file__], ["--file", "no-such-file"]])
def test_what_to_check_must_be_one_thing_that_exists(groundline: Run, options: list[str]) -> None:
    groundline("verify", *options, code=2)


def test_a_check_that_fails_midway_says_so(groundline: Run, gateway: FakeGateway) -> None:
    error = {"code": 14, "reason": "RETRIEVER_UNAVAILABLE", "message": "the retriever is down"}
    gateway.verify_events = [*EVENTS[:2], {"sequence": 3, "error": error}]
    result = groundline("verify", "x", code=1)
    assert result.stdout.startswith("supported 0.75  Claim 1.")
    assert result.stderr == "error: the retriever is down (RETRIEVER_UNAVAILABLE)\n"


def test_a_check_that_just_ends_says_so(groundline: Run, gateway: FakeGateway) -> None:
    gateway.verify_events = EVENTS[:3]
    result = groundline("verify", "x", code=1)
    assert "broke off" in result.stderr


def test_claims_are_printed_with_what_decides_and_a_refuted_one_has_an_exit_code(
    groundline: Run, gateway: FakeGateway
) -> None:
    gateway.verify_events = EVENTS
    asked = ("--collection", "a", "--filter", '{"year": 2026}', "--as-of", "2026-03-01")
    result = groundline("verify", "A text.", *asked, code=1)
    assert result.stdout == (
        "supported 0.75  Claim 1.\n    “One.”\n    Leave\ufffd[2J — handbook/leave.md\n"
        'refuted 0.75  Claim 2.\n    a passage has "27" in place of "28"\n'
        "    “27 days.”\n    Leave\ufffd[2J — handbook/leave.md\n"
        "not found 0.75  Claim 3.\n    no passage that was found says so\n"
    )
    assert result.stderr == "1 supported, 1 refuted, 1 not found (judged: 2 by rules, 1 by reader)\n"
    assert gateway.requests[-1][2] == {
        "text": "A text.",
        "collectionIds": ["a"],
        "filter": {"year": 2026},
        "asOf": "2026-03-01T00:00:00Z",
    }


def test_where_nothing_is_refuted_it_succeeds(groundline: Run, gateway: FakeGateway) -> None:
    degraded = [{"component": "COMPONENT_VALIDATION", "reason": "JUDGE_UNAVAILABLE", "message": "by rules"}]
    gateway.verify_events = [*EVENTS[:2], {"completed": {"supportedCount": 1, "degraded": degraded}}]
    result = groundline("verify", "x")
    assert "note: without validation: by rules" in result.stderr


def test_a_file_or_input_is_checked_and_shown(groundline: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    gateway.verify_events = EVENTS
    file = tmp_path / "text.md"
    file.write_text("From a file.")
    by_file = groundline("verify", "--file", str(file), "--json", code=1)
    groundline("verify", "--json", input="From the input.", code=1)
    assert [body["text"] for _, _, body in gateway.requests] == ["From a file.", "From the input."]
    shown = json.loads(by_file.stdout)
    assert [each["number"] for each in shown["claims"]] == [1, 2, 3]
    assert shown["completed"]["refutedCount"] == 1
