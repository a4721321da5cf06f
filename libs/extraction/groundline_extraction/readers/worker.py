"""Process that reads files: one request after the other on stdin, answers on stdout.

The first line of the answers names the process's restrictions. A request is a line of JSON, {"reader": name,
"size": bytes, "hints": {...}}; the bytes are in a file that was open when the process began. Answers are
lines of JSON: pieces of the text, each as soon as it is read, and at last null, or an error.
"""

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from typing import IO, Any, BinaryIO

from groundline_extraction.readers.common import (
    Give,
    Hints,
    Read,
    ReaderLimits,
    ReadError,
    cut,
    encoded_bytes,
)
from groundline_extraction.readers.isolation import confine, cpu_seconds, limit_cpu_seconds


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
                give = _giver(answers, request["size"], limits)
                hints = Hints(**request["hints"])
                _write(answers, _error(request["reader"], file, hints, limits, give))


def _giver(answers: IO[bytes], size: int, limits: ReaderLimits) -> Give:
    """Begin to count the time of a file, and return the function that gives its pieces, for each of which it
    has more."""
    begun, given = cpu_seconds(), 0
    limit_cpu_seconds(begun + limits.seconds_for(size))

    def give(read: Read) -> None:
        nonlocal size, given
        for piece in cut(read):
            _write(answers, {"piece": dataclasses.asdict(piece)})
        given += len(read.text)
        size += sum(len(member.data) for member in read.members)
        limit_cpu_seconds(begun + limits.seconds_for(size, given))

    return give


def _error(reader: Any, file: BinaryIO, hints: Hints, limits: ReaderLimits, give: Give) -> Any:
    """Read a file, and return the error that kept it from being read to its end; None if none did."""
    module = importlib.import_module(f"groundline_extraction.readers.{reader}")
    try:
        if hasattr(module, "read_pieces"):
            module.read_pieces(file, hints, limits, give)
        else:
            give(module.read(file.read(), hints, limits))
    except ReadError as error:
        return {"error": [error.reason, error.message]}
    except (MemoryError, RecursionError):
        return {"error": ["DOCUMENT_TOO_LARGE", "reading it takes more memory than it may"]}
    return None


def _write(answers: IO[bytes], answer: object) -> None:
    answers.write(json.dumps(answer, default=encoded_bytes).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
