"""Server-sent events, cut at any byte."""

import pytest
from groundline_client.transport.sse import EventParser, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st


def parse(*chunks: bytes) -> list[str]:
    parser = EventParser()
    return [event.data for chunk in chunks for event in parser.feed(chunk)]


DATA = {
    "an event cut off by the end of the stream is not one": ([b"data: one\n\ndata: two\n"], ["one"]),
    "comments, unknown fields and events without data are passed over": (
        [b": hello\n\nevent: x\nid: 7\nretry: 5\n\ndata\n\ndatabase: no\ndata: yes\n\n"],
        ["", "yes"],
    ),
    "bytes that are not UTF-8 become replacement characters": ([b"data: a\xffb\n\n"], ["a\ufffdb"]),
    "several data lines are joined": ([b"data: one\ndata:two\ndata:  three\n\n"], ["one\ntwo\n three"]),
    "a byte order mark is not part of the first line": ([b"\xef", b"\xbb\xbfdata: one\n\n"], ["one"]),
}


@pytest.mark.parametrize(("chunks", "data"), DATA.values(), ids=DATA)
def test_the_data_of_a_stream(chunks: list[bytes], data: list[str]) -> None:
    assert parse(*chunks) == data


def test_names_are_of_one_event_and_ids_of_all_that_follow() -> None:
    stream = b"event: delta\nid: 7\ndata: a\n\ndata: b\n\nid: 8\0\nevent\ndata: c\n\nid\ndata: d\n\n"
    assert list(EventParser().feed(stream)) == [
        ServerSentEvent("a", "delta", "7"),
        ServerSentEvent("b", "message", "7"),
        ServerSentEvent("c", "message", "7"),
        ServerSentEvent("d", "message", ""),
    ]


def test_a_name_without_data_is_no_event_and_not_the_next_ones() -> None:
    assert list(EventParser().feed(b"event: ping\n\ndata: a\n\n")) == [ServerSentEvent("a")]


def test_separators_that_only_python_takes_for_line_ends_stay_in_the_data() -> None:
    text = "a\u2028b\x85c\x0bd"
    assert parse(f"data: {text}\n\n".encode()) == [text]


def test_an_event_is_there_with_its_last_byte_even_where_lines_end_in_carriage_returns() -> None:
    assert parse(b"data: one\r\r") == ["one"]
    assert parse(b"data: one\r\n\r") == ["one"]
    assert parse(b"data: one\r\n\r", b"\ndata: two\r\n\r\n") == ["one", "two"]


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


@given(
    events=st.lists(st.lists(lines, min_size=1, max_size=3), max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    data=st.data(),
)
def test_events_do_not_depend_on_how_the_bytes_are_split(
    events: list[list[str]], end: str, data: st.DataObject
) -> None:
    text = "".join("".join(f"data: {line}{end}" for line in event) + end for event in events)
    stream = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*chunks) == ["\n".join(event) for event in events]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_one_byte_at_a_time(end: bytes) -> None:
    stream = b"data: {" + end + b"data: }" + end + end
    assert parse(*(bytes([byte]) for byte in stream)) == ["{\n}"]
