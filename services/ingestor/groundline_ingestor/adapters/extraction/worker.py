"""The process that reads files: one request after the other on stdin, answers on stdout.

The first line of the answers says what the process is confined by. A request is a line of JSON,
{"reader": name, "size": bytes, "hints": {...}}; the bytes are in a file that was open when the process began.
Answers are lines of JSON: pieces of the text, each as soon as it is read, and at last null, or an error.
"""

import dataclasses
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from groundline_ingestor.adapters.extraction.formats import is_piecewise
from groundline_ingestor.adapters.extraction.isolation import confine, limit_cpu_seconds
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError, cut

__all__ = ["main"]


def main() -> None:
    limits = ReaderLimits(**json.loads(sys.argv[1]))
    content = int(sys.argv[2])
    readable = [Path(limits.ocr_data)] if limits.ocr_data else []
    isolation = confine(readable, memory_bytes=limits.memory_bytes)
    # Answers have a stream of their own: a library that prints must not end up between them.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        _write(answers, isolation)
        while line := sys.stdin.buffer.readline():
            request = json.loads(line)
            with os.fdopen(content, "rb", closefd=False) as file:
                file.seek(0)
                # Where nobody waits any more; who does keeps the time of the whole.
                limit_cpu_seconds(limits.seconds_for(request["size"]))
                for answer in _answers(request["reader"], file, Hints(**request["hints"]), limits):
                    _write(answers, answer)
                    limit_cpu_seconds(limits.seconds_for(request["size"]))


def _answers(reader: Any, file: BinaryIO, hints: Hints, limits: ReaderLimits) -> Iterator[Any]:
    try:
        for piece in _pieces(reader, file, hints, limits):
            yield {"piece": dataclasses.asdict(piece)}
        yield None
    except ReadError as error:
        yield {"error": [error.reason, error.message]}
    except (MemoryError, RecursionError):
        yield {"error": ["DOCUMENT_TOO_LARGE", "reading it takes more memory than it may"]}


def _pieces(reader: Any, file: BinaryIO, hints: Hints, limits: ReaderLimits) -> Iterator[Read]:
    module = importlib.import_module(f"groundline_ingestor.adapters.extraction.readers.{reader}")
    if is_piecewise(reader):
        yield from module.pieces(file, hints, limits)
    else:
        yield from cut(module.read(file.read(), hints, limits))


def _write(answers: IO[bytes], answer: object) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
