"""Progress of a stream of events, so that one that broke off can be continued."""

import re
from dataclasses import dataclass
from typing import Final, Self

from groundline.v1 import chat_pb2
from groundline.v1 import coordinator_service_pb2 as pb

type Sent = (
    str
    | chat_pb2.ChatStarted
    | chat_pb2.ChatStatus
    | chat_pb2.ChatSources
    | chat_pb2.UnsupportedSentence
    | chat_pb2.AnswerCorrection
    | chat_pb2.ChatCompleted
    | chat_pb2.ChatError
)

_EVENT_ID: Final = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,8})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Position:
    """Position behind an event of an answer's stream."""

    answer: str
    """First digits of the answer's message id."""
    sequence: int = 0
    """Number of events sent."""
    characters: int | None = None
    """Characters of the text that the caller has; None before the sources."""

    @classmethod
    def before(cls, message_id: str) -> Self:
        """Return the position before the first event of an answer."""
        return cls(message_id[:8])

    @classmethod
    def of(cls, event_id: str) -> Self | None:
        """Parse an event's id; None if it is not one."""
        found = _EVENT_ID.fullmatch(event_id)
        if found is None:
            return None
        return cls(found[1], int(found[2]), None if found[3] is None else int(found[3]))

    @property
    def event_id(self) -> str:
        """Id of the event that led here."""
        sent = f"{self.answer}-{self.sequence}"
        return sent if self.characters is None else f"{sent}-{self.characters}"

    def after(self, event: Sent) -> "Position":
        """Return the position after one more event; a text is one, too."""
        characters = self.characters
        if isinstance(event, str):
            characters = (characters or 0) + len(event)
        elif isinstance(event, chat_pb2.ChatSources):
            characters = 0
        elif isinstance(event, chat_pb2.AnswerCorrection):
            characters = (characters or 0) + len(event.text) - (event.end_offset - event.start_offset)
        return Position(self.answer, self.sequence + 1, characters)

    def response(self, event: Sent) -> pb.ChatResponse:
        """Return the event that led here, for the wire."""
        response = pb.ChatResponse(sequence=self.sequence, event_id=self.event_id)
        match event:
            case str():
                response.delta.text = event
            case chat_pb2.ChatStarted():
                response.started.CopyFrom(event)
            case chat_pb2.ChatStatus():
                response.status.CopyFrom(event)
            case chat_pb2.ChatSources():
                response.sources.CopyFrom(event)
            case chat_pb2.UnsupportedSentence():
                response.unsupported.CopyFrom(event)
            case chat_pb2.AnswerCorrection():
                response.correction.CopyFrom(event)
            case chat_pb2.ChatCompleted():
                response.completed.CopyFrom(event)
            case chat_pb2.ChatError():
                response.error.CopyFrom(event)
        return response
