"""Entries of the audit log, and the chain of their hashes."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from groundline_gateway.auditing.entries import (
    PRUNED,
    START,
    AuditEntry,
    Chain,
    ChainError,
    entry_of_line,
    is_recorded,
)

TIME: Final = "2026-11-28T12:00:00.000Z"


def chained(*fields: dict[str, Any]) -> list[AuditEntry]:
    """Return entries with these fields, numbered from 1."""
    found: list[AuditEntry] = []
    previous = START
    for number, each in enumerate(fields, 1):
        entry = AuditEntry(number, {"time": TIME, **each}, b"")
        previous = entry.digest(previous)
        found.append(replace(entry, hash=previous))
    return found


def deletions(number: int) -> list[dict[str, Any]]:
    return [{"action": "DeleteDocument", "resource": f"/api/{n}", "status": 200} for n in range(number)]


def checked(entries: Iterable[AuditEntry]) -> int:
    chain = Chain()
    chain.add(entries)
    return chain.end()


def test_a_whole_chain_is_sound_also_after_an_export() -> None:
    entries = chained(*deletions(5))
    assert checked(entries) == 0
    exported = [json.loads(json.dumps(entry.as_json())) for entry in entries]
    assert checked(map(AuditEntry.of_json, exported)) == 0


@pytest.mark.parametrize("place", range(5))
def test_a_missing_entry_shows_unless_it_is_the_last(place: int) -> None:
    entries = chained(*deletions(5))
    del entries[place]
    if place == 4:  # which the head in the database, or an export, tells
        assert checked(entries) == 0
        return
    with pytest.raises(ChainError, match="missing"):
        checked(entries)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    "change", [{"status": 403}, {"client": "mallory"}, {"time": "2026-11-28T12:00:00.001Z"}]
)
def test_a_changed_entry_shows(place: int, change: dict[str, Any]) -> None:
    entries = chained(*deletions(5))
    entries[place] = replace(entries[place], fields={**entries[place].fields, **change})
    with pytest.raises(ChainError, match=f"entry {place + 1} was changed"):
        checked(entries)


def test_two_entries_that_changed_places_show() -> None:
    first, second, third = chained(*deletions(3))
    with pytest.raises(ChainError):
        checked([second, first, third])


def test_entries_that_retention_deleted_are_told_and_others_are_missed() -> None:
    entries = chained(*deletions(3), {"action": PRUNED, "resource": "2"}, *deletions(1))
    assert checked(entries[2:]) == 2
    with pytest.raises(ChainError, match="up to 3 are missing"):
        checked(entries[3:])


@pytest.mark.parametrize(
    "value", [{}, {"entry_id": 1}, {"entry_id": "x", "hash": ""}, {"entry_id": 1, "hash": "no"}, {"hash": 1}]
)
def test_something_else_is_not_an_entry(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        AuditEntry.of_json(value)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            b'{"event":"audit","time":"t","client":"a","status":200,"more":1}',
            {"time": "t", "client": "a", "status": 200},
        ),
        (
            b'{"event":"audit","time":"t","status":404,"grpc_status":"Unimplemented"}',
            {"time": "t", "status": 404},
        ),
        (
            b'{"event":"audit","time":"t","status":200,"grpc_status":"NotFound"}',
            {"time": "t", "status": 200, "grpc_status": "NotFound"},
        ),
        (b'{"event":"audit","ti', None),
        (b'{"event":"request","time":"t"}', None),
        (b'["audit"]', None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_line_is_an_entry_or_nothing(line: bytes, fields: dict[str, Any] | None) -> None:
    assert entry_of_line(line) == fields


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"action": "DeleteDocument", "status": 200}, "change"),
        ({"action": "IngestDocuments", "status": 400}, "change"),
        ({"action": "RateAnswer", "status": 200}, "change"),
        ({"action": "Search", "status": 200}, "read"),
        ({"action": "Chat", "status": 200}, "read"),
        ({"action": "McpRequest", "status": 200}, "read"),
        ({"action": "GetDocument", "status": 404}, "read"),
        ({"action": "GetDocument", "status": 403}, "change"),
        ({"action": "Search", "status": 401}, "change"),
        ({"action": "Search", "status": 200, "grpc_status": "PermissionDenied"}, "change"),
        ({"action": "unknown", "status": 404}, ""),
        ({"status": 200}, ""),
    ],
)
def test_changes_and_refusals_are_recorded_and_reads_if_wanted(fields: dict[str, Any], kinds: str) -> None:
    assert is_recorded(fields, with_reads=False) is (kinds == "change")
    assert is_recorded(fields, with_reads=True) is (kinds != "")
