"""Entries of the audit log, and the chain of their hashes."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from groundline_gateway.bridged import BRIDGED
from groundline_gateway.endpoints import endpoints

START: Final = bytes(32)
"""Hash before the first entry."""

PRUNED: Final = "PruneAuditLog"
"""Action of an entry that tells up to which number older ones were deleted, which is its resource."""

LOST: Final = "LoseAuditEntries"
"""Action of an entry that tells of how many bytes of the log no entries could be made."""

_FIELDS: Final = (
    "time", "client", "credential", "principals", "action", "resource", "status", "grpc_status", "peer",
    "request_id", "trace_id", "dry_run", "created",
)  # fmt: skip
_OK: Final = 200
_REFUSED_STATUSES: Final = (401, 403)
_REFUSED_CODES: Final = ("PermissionDenied", "Unauthenticated")
# They write nothing that others see, and read documents.
_ASKING: Final = frozenset({"Answer", "Chat", "Verify"})


_ENDPOINTS: Final = endpoints()
_CHANGES: Final = frozenset(each.name for each in _ENDPOINTS if not each.has_no_side_effects) - _ASKING
_KNOWN: Final = frozenset(each.name for each in _ENDPOINTS) | {each.name for each in BRIDGED}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry with its number and its hash, which is `digest` of the one before."""

    entry_id: int
    fields: Mapping[str, Any]
    """As Envoy logs them; `time` in UTC, with milliseconds."""
    hash: bytes

    def digest(self, previous: bytes) -> bytes:
        """Return the hash that it should have behind an entry of hash `previous`."""
        return _digest(previous, self.entry_id, self.fields)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it is exported; of_json() reads it."""
        return {"entry_id": self.entry_id, **self.fields, "hash": self.hash.hex()}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> "AuditEntry":
        """Return the entry of an export. Raises ValueError for something else."""
        try:
            fields = {name: each for name, each in value.items() if name not in ("entry_id", "hash")}
            return cls(int(value["entry_id"]), fields, bytes.fromhex(value["hash"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("not an entry of the audit log") from error


def _digest(previous: bytes, entry_id: int, fields: Mapping[str, Any]) -> bytes:
    canonical = json.dumps(
        {"entry_id": entry_id, **fields}, sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )
    return hashlib.sha256(previous + canonical.encode()).digest()


def entry_of_line(line: bytes) -> Mapping[str, Any] | None:
    """Return the fields of a line of Envoy's audit log; None for something else, such as half a line."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.get("event") != "audit" or "time" not in value:
        return None
    fields = {name: value[name] for name in _FIELDS if value.get(name) is not None}
    if fields.get("status") != _OK:
        # Envoy has made it of the HTTP status, by a table in which 404 is "Unimplemented".
        fields.pop("grpc_status", None)
    return fields


def is_recorded(fields: Mapping[str, Any], *, with_reads: bool) -> bool:
    """Tell whether a call belongs in the log: changes and refusals, and reads and dry runs if they are
    wanted."""
    if fields.get("status") in _REFUSED_STATUSES or fields.get("grpc_status") in _REFUSED_CODES:
        return True
    action = fields.get("action")
    is_change = action in _CHANGES and "dry_run" not in fields
    return is_change or (with_reads and action in _KNOWN)


class ChainError(Exception):
    """A chain with an entry that is missing or was changed; the message names it."""


class Chain:
    """A check of entries, one after the other."""

    def __init__(self) -> None:
        self.last: AuditEntry | None = None
        self._missing = 0
        """Number up to which entries are missing at the beginning."""
        self._pruned = 0

    def add(self, entries: Iterable[AuditEntry]) -> None:
        """Check the next entries. Raises ChainError."""
        for entry in entries:
            if self.last is None:
                self._missing = entry.entry_id - 1
                is_sound = self._missing > 0 or entry.hash == entry.digest(START)
            elif entry.entry_id != self.last.entry_id + 1:
                raise ChainError(f"entry {self.last.entry_id + 1} is missing")
            else:
                is_sound = entry.hash == entry.digest(self.last.hash)
            if not is_sound:
                raise ChainError(f"entry {entry.entry_id} was changed, or the one before it")
            if entry.fields.get("action") == PRUNED:
                self._pruned = max(self._pruned, int(entry.fields["resource"]))
            self.last = entry

    def end(self) -> int:
        """Return up to which number entries were deleted by retention. Raises ChainError if others are
        missing at the beginning."""
        if self._missing > self._pruned:
            raise ChainError(f"entries up to {self._missing} are missing, and retention did not delete them")
        return self._missing
