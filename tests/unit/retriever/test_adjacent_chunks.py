from collections.abc import Sequence

from groundline.v1 import passage_pb2
from groundline.v1 import retriever_service_pb2 as pb
from groundline_ranking import Ranked
from groundline_retriever.passages import FetchedChunk, add_passages, with_adjacent

# Adjacent chunks


def piece(index: int, start: int, text: str) -> passage_pb2.Chunk:
    return passage_pb2.Chunk(
        chunk_id=str(index), chunk_index=index, text=text, start_offset=start, end_offset=start + len(text)
    )


def adjacent(hit: passage_pb2.Chunk, nearby: Sequence[passage_pb2.Chunk]) -> Sequence[passage_pb2.Chunk]:
    return with_adjacent(hit, nearby)


def test_an_adjacent_chunk_begins_on_the_page_of_what_is_left_of_it() -> None:
    hit, after = piece(0, 0, "One. Two."), piece(1, 5, "Two.\f\nThree.\fFour.")
    after.metadata.update({"page": 3})
    [left] = adjacent(hit, [after])
    assert (left.text, left.metadata["page"]) == ("\f\nThree.\fFour.", 4)
    assert after.metadata["page"] == 3


def test_adjacent_chunks_are_cut_where_they_overlap_and_stand_in_order() -> None:
    text = "abcdefghijklmnop"
    chunks = [piece(index, start, text[start : start + 5]) for index, start in enumerate((0, 3, 6, 9, 11))]
    for index, expected in ((2, ["abc", "def", "lmn", "op"]), (0, ["fgh", "ijk", "lmn", "op"])):
        others = [chunk for chunk in chunks if chunk.chunk_index != index]
        pieces = adjacent(chunks[index], others[::-1])
        assert [chunk.text for chunk in pieces] == expected
        assert all(text[chunk.start_offset : chunk.end_offset] == chunk.text for chunk in pieces)


def test_an_adjacent_chunk_without_text_of_its_own_is_left_out() -> None:
    hit = piece(1, 2, "cdefgh")
    assert list(adjacent(hit, [piece(0, 2, "cd"), piece(2, 4, "efgh")])) == []
    apart = [piece(0, 0, "a"), piece(2, 20, "z")]
    assert list(adjacent(hit, apart)) == apart


def test_a_chunk_stands_in_one_passage_only() -> None:
    adjacent = {5: (4, 6), 7: (6, 8), 8: (7, 9), 20: ()}
    ranked = [Ranked(number, "docs", 0.0, passage_pb2.ScoreExplanation()) for number in adjacent]
    fetched = [
        FetchedChunk(number, piece(number, 0, "x"), 1, [piece(each, 0, "x") for each in others])
        for number, others in adjacent.items()
    ]
    shown = pb.SearchResponse()
    add_passages(shown, ranked, fetched)
    assert [[other.chunk_index for other in each.adjacent_chunks] for each in shown.passages] == [
        [4, 6],
        [],
        [9],
        [],
    ]
