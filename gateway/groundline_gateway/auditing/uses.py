"""When stored keys were last used, from the calls that Envoy logs."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from groundline_gateway.keys import KeyStore

_EVERY: Final = timedelta(hours=1)
"""Time after which a key's use is written again."""


class KeyUses:
    """Uses of keys that no request waits for, on their way into the table of keys."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._noted: dict[str, datetime] = {}

    def see(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Remember the keys of calls, by the fields of their lines, the latest last."""
        for fields in calls:
            kind, _, key_id = fields.get("credential", "").partition(":")
            if kind == "key" and key_id:
                self._seen[key_id] = fields["time"]

    async def note(self, keys: KeyStore) -> None:
        """Write the uses of keys of which none was written for an hour. Raises UnavailableError."""
        due = {}
        for key_id, text in self._seen.items():
            time, before = datetime.fromisoformat(text), self._noted.get(key_id)
            if before is None or time - before >= _EVERY:
                due[key_id] = time
        if due:
            await keys.note_uses(due, _EVERY)
        self._noted |= due
        self._seen.clear()
