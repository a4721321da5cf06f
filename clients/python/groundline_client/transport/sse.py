"""Server-sent events, as the HTML standard defines their stream."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["EventParser", "ServerSentEvent"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """An event, its name ("message" if the stream gives none) and the last id that the stream named."""

    data: str
    event: str = "message"
    last_event_id: str = ""


class EventParser:
    """A parser that cuts a stream of bytes into events, however the bytes are split.

    Comments and retry times are ignored. An event that the stream's end cuts off does not count.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0
        self._started = False
        self._after_carriage_return = False
        self._data: list[str] = []
        self._event = ""
        self._last_event_id = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield every event that `chunk` completes. Bytes that are not UTF-8 become U+FFFD."""
        for line in self._lines(chunk):
            if line:
                self._take_field(line)
                continue
            if self._data:
                yield ServerSentEvent("\n".join(self._data), self._event or "message", self._last_event_id)
            self._data.clear()
            self._event = ""

    def _take_field(self, line: bytes) -> None:
        name, _, raw = line.partition(b":")
        value = raw.removeprefix(b" ").decode("utf-8", errors="replace")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value
            case b"id" if "\0" not in value:
                self._last_event_id = value

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yield lines without their ends, which are CR LF, LF or CR.

        A CR ends its line at once, so that an event is not held back until the next byte; a LF that then
        follows belongs to it.
        """
        if self._after_carriage_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_carriage_return = False
        self._pending += chunk
        if not self._started:
            if len(self._pending) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._pending):
                return
            self._started = True
            if self._pending.startswith(_BYTE_ORDER_MARK):
                del self._pending[: len(_BYTE_ORDER_MARK)]
        begin = 0
        while end := _LINE_END.search(self._pending, max(begin, self._searched)):
            line = bytes(self._pending[begin : end.start()])
            begin = end.end()
            self._after_carriage_return = begin == len(self._pending) and end[0] == b"\r"
            yield line
        del self._pending[:begin]
        self._searched = len(self._pending)
