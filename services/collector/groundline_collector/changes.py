"""Finds of connectors."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import document_pb2, error_pb2, limits_pb2, passage_pb2
from groundline_contracts import limits_of
from groundline_extraction.documents import IngestionError
from groundline_validation import has_format

MAX_PRINCIPALS: Final = limits_of(document_pb2.DocumentInput, "allowed_principals").max_items
"""Maximum principals of a document."""
MAX_URI_BYTES: Final = 2500
"""Maximum size of a uri, as in DocumentInput.uri."""
_SHOWN_CHARACTERS: Final = 200
_STAGE: Final = document_pb2.INGESTION_STATE_EXTRACTING


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A document of a source."""

    uri: str
    content: Iterable[bytes] = field(compare=False)
    """Pieces of the content; the next one may block. Raises IngestionError."""
    title: str = ""
    mime_type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source_type: passage_pb2.SourceType.ValueType = passage_pb2.SOURCE_TYPE_FILE
    is_text: bool = False
    """Whether the content is text, or an object in JSON, in UTF-8."""

    def first_part(self) -> pb.DocumentPart:
        """Return the part that describes the document."""
        part = pb.DocumentPart(
            document=document_pb2.DocumentInput(
                uri=self.uri, title=_sound(self.title), mime_type=_sound(self.mime_type)
            ),
            source_type=self.source_type,
            is_text=self.is_text,
        )
        if self.metadata:
            part.document.metadata.update(_sound_values(self.metadata))
        return part


@dataclass(frozen=True, slots=True)
class Found:
    """A document of the source. `load` may block, and is called only if the document is wanted.

    It raises IngestionError if the document cannot be had.
    """

    uri: str
    version: str
    load: Callable[[], LoadedDocument] = field(compare=False)
    held_bytes: int = 0
    """Bytes that it holds in memory."""
    allowed_principals: Sequence[str] | None = None
    """Who alone may read it at the source; "*" is everyone. None: the source does not say, and its definition
    holds; empty: nobody, and the document goes. A change reaches the stored document at the next run."""

    def __post_init__(self) -> None:
        for principal in self.allowed_principals or ():
            if not is_principal(principal):
                raise ValueError("a principal must be 1 to 200 printable characters without white space")
        if len(self.allowed_principals or ()) > MAX_PRINCIPALS:
            raise ValueError(f"a document has at most {MAX_PRINCIPALS} principals")

    @property
    def stated_version(self) -> str:
        """The version with who may read, as it is sent and compared."""
        if self.allowed_principals is None:
            return self.version
        principals = json.dumps(sorted(set(self.allowed_principals)))
        return f"{self.version} {hashlib.sha256(principals.encode()).hexdigest()[:32]}"


def is_principal(name: str) -> bool:
    """Tell whether a name can be a principal's."""
    return has_format(name, limits_pb2.TEXT_FORMAT_PRINCIPAL)


type Change = Found | pb.SourceChange


def present(uri: str) -> pb.SourceChange:
    return pb.SourceChange(present=_sound(uri))


def gone(uri: str) -> pb.SourceChange:
    return pb.SourceChange(gone=_sound(uri))


def unreadable(uri: str, reason: str, message: str) -> pb.SourceChange:
    """Return the change of a document that cannot be had; `reason` is the name of an ErrorReason."""
    failure = document_pb2.IngestionFailure(
        stage=_STAGE, reason=error_pb2.ErrorReason.Value(reason), message=_sound(message)
    )
    return pb.SourceChange(unreadable=pb.UnreadableDocument(uri=_sound(uri), failure=failure))


def reached(cursor: str, *, is_complete: bool) -> pb.SourceChange:
    return pb.SourceChange(reached=pb.ReachedPlace(cursor=cursor, is_complete=is_complete))


def not_had(reason: str, message: str) -> IngestionError:
    """Return the error of one document that cannot be had; the others can."""
    return IngestionError(_STAGE, reason, message)


def message_of(change: Change) -> pb.SourceChange:
    """Return a change as it is sent. One whose name no document can have is reported under a valid one."""
    uri = change.uri if isinstance(change, Found) else change.present
    shown = "".join(one if one.isprintable() else "\ufffd" for one in uri)
    if shown != uri or len(uri.encode()) > MAX_URI_BYTES:
        message = f"its name cannot be a uri: it cannot be shown, or has more than {MAX_URI_BYTES} bytes"
        return unreadable(shown[:_SHOWN_CHARACTERS], "SOURCE_REFUSED", message)
    if isinstance(change, Found):
        if change.allowed_principals is not None and not change.allowed_principals:
            return gone(uri)
        return pb.SourceChange(found=pb.FoundDocument(uri=uri, version=_sound(change.stated_version)))
    return change


def _sound(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()


def _sound_values(value: Any) -> Any:
    match value:
        case str():
            return _sound(value)
        case list() | tuple():
            return [_sound_values(one) for one in value]
        case Mapping():
            return {_sound(name): _sound_values(one) for name, one in value.items()}
    return value
