"""Values stored as jsonb, compared with their messages."""

import json
import math
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from groundline.v1 import chat_pb2, passage_pb2
from groundline_coordinator.adapters.json_values import json_values

VALUES = {
    FieldDescriptor.CPPTYPE_STRING: 'said "é"\n',
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_FLOAT: 0.1,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.1,
    FieldDescriptor.CPPTYPE_INT32: -7,
}


def full[M: Message](message: M) -> M:
    """Return a message with a value in every field, two in the repeated ones."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is Struct.DESCRIPTOR:
            getattr(message, field.name).update({"path": ["a", 1, None], "is_kept": True})
        elif field.message_type is not None and field.is_repeated:
            full(getattr(message, field.name).add())
            full(getattr(message, field.name).add())
        elif field.message_type is not None:
            full(getattr(message, field.name))
        elif field.is_repeated:
            getattr(message, field.name).extend([value_of(field)] * 2)
        else:
            setattr(message, field.name, value_of(field))
    return message


def value_of(field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return VALUES[field.cpp_type]


@pytest.mark.parametrize(
    "message",
    [
        chat_pb2.Source(),
        chat_pb2.Citation(),
        chat_pb2.Usage(),
        chat_pb2.ChatCompleted(),
        chat_pb2.ChatStatus(),
    ],
    ids=lambda message: message.DESCRIPTOR.name,
)
def test_every_field_is_written_as_proto3_json_has_it(message: Message) -> None:
    written = json.loads(json.dumps(json_values(full(message))))
    assert ParseDict(written, type(message)()) == message
    assert written.keys() == MessageToDict(message).keys()


def test_a_message_without_values_has_no_fields() -> None:
    assert json_values(chat_pb2.Source()) == {}


def test_what_is_left_out_is_left_out_of_this_message_alone() -> None:
    source = chat_pb2.Source(score=2, explanation=passage_pb2.ScoreExplanation(fused_rank=1))
    assert json_values(source, without=frozenset({"score"})) == {"explanation": {"fusedRank": 1}}


def test_a_value_of_a_newer_release_keeps_its_number() -> None:
    status = chat_pb2.ChatStatus(stage=99)  # type: ignore[arg-type]
    assert json_values(status) == {"stage": 99}


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_lacks_is_a_word(score: float) -> None:
    written = json.dumps(json_values(chat_pb2.Source(score=score)), allow_nan=False)
    read = ParseDict(json.loads(written), chat_pb2.Source()).score
    assert read == score or (math.isnan(read) and math.isnan(score))
