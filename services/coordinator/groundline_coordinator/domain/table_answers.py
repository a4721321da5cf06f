"""Answers out of tables: the rows that a plan found, each with the passage that it stands in."""

from collections.abc import Sequence
from typing import Final

from groundline.v1 import (
    chat_pb2,
    generator_service_pb2,
    passage_pb2,
    retriever_service_pb2,
    table_pb2,
)

MODEL: Final = "tables"
"""Name of what writes these answers."""

MAX_ROWS: Final = 20
_NAMED_CELLS: Final = 3
_SUPPORTING_CHARACTERS: Final = 400
_RIGHT: Final = 0.9
"""Share of these answers that were right, of questions by somebody who did not know the rules, or less."""

_RIGHT_BY_MODEL: Final = 0.5
"""As long as nobody has measured how often a language model's plans are."""

_RULES: Final = "rules"
_SHEETS: Final = (".csv", ".tsv", ".xlsx", ".xls", ".ods")

type Found = retriever_service_pb2.QueryTablesResponse


def table_passages(found: Found) -> Sequence[passage_pb2.Passage]:
    """Return the chunks that an answer's rows stand in, as passages."""
    return [passage_pb2.Passage(chunk=chunk, score=1) for chunk in found.chunks]


def is_of_table(passage: passage_pb2.Passage) -> bool:
    """Tell whether a passage holds rows of a table: one of a text, or of a sheet."""
    chunk = passage.chunk
    return chunk.uri.lower().endswith(_SHEETS) or any(
        line.startswith("|") for line in chunk.text.splitlines()
    )


def table_answer(found: Found) -> tuple[str, generator_service_pb2.GenerateCompleted]:
    """Return the rows as text with markers of their passages, and what a generator would say of it. The plan
    is shown as well if a language model wrote it.

    What a document holds cannot make a marker, a link or an image: "[" and "<" are escaped.
    """
    by_model = found.model not in {"", _RULES}
    right = _RIGHT_BY_MODEL if by_model else _RIGHT
    completed = generator_service_pb2.GenerateCompleted(
        finish_reason=chat_pb2.FINISH_REASON_STOP,
        model=MODEL,
        validation=chat_pb2.Validation(
            grounded=True,
            confidence=right,
            raw_confidence=right,
            cited_share=1,
            supported_share=1,
            query_relevance=1,
        ),
    )
    lines: list[str] = []
    length = 0
    shown = found.rows[:MAX_ROWS]
    bullet = "- " if len(shown) > 1 else ""
    for row in shown:
        line = f"{bullet}{_said(row)}"
        if cited := _cited(found, row):
            number, chunk, start = cited
            completed.citations.add(
                source_number=number,
                start_offset=length + len(bullet),
                end_offset=length + len(line),
                supporting_text=_row_text(chunk, start),
                chunk_id=chunk.chunk_id,
            )
            line += f" [{number}]"
        lines.append(line)
        length += len(line) + 1
    if found.has_more or len(found.rows) > MAX_ROWS:
        lines.append("- …")
    if by_model:
        lines += ["", f"Plan: {_escaped(' '.join(found.explanation.split()))}"]
    return "\n".join(lines), completed


def _said(row: table_pb2.TableAnswerRow) -> str:
    places = list(dict.fromkeys(each.reference for each in row.sources if each.reference))
    more = ", …" if len(places) > _NAMED_CELLS else ""
    named = f" ({', '.join(places[:_NAMED_CELLS])}{more})" if places else ""
    return _escaped(row.text) + named


def _escaped(text: str) -> str:
    return text.replace("[", "\\[").replace("<", "\\<")


def _cited(found: Found, row: table_pb2.TableAnswerRow) -> tuple[int, passage_pb2.Chunk, int] | None:
    """Return the number and the passage of a row's first cell, and where its row begins in the document."""
    for source in row.sources[:1]:
        for number, chunk in enumerate(found.chunks, 1):
            if chunk.start_offset <= source.start_offset < chunk.end_offset:
                return number, chunk, source.start_offset
    return None


def _row_text(chunk: passage_pb2.Chunk, start: int) -> str:
    """Return the text of a row: a line of a Markdown table, or a record up to the next blank line."""
    text = chunk.text[start - chunk.start_offset :]
    return text.split("\n" if text.startswith("|") else "\n\n", 1)[0][:_SUPPORTING_CHARACTERS]
