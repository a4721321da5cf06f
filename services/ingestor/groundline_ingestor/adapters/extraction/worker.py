"""The process that reads files: one request after the other on stdin, answers on stdout.

The first line of the answers says what the process is confined by. A request is a line of JSON,
{"reader": name, "size": bytes, "hints": {...}}, and the bytes; an answer is a line of JSON.
"""

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

from groundline_ingestor.adapters.extraction.headings import read_headings
from groundline_ingestor.adapters.extraction.isolation import confine, limit_cpu_seconds
from groundline_ingestor.adapters.extraction.readers.common import Hints, Read, ReaderLimits, ReadError

__all__ = ["main"]


def main() -> None:
    limits = ReaderLimits(**json.loads(sys.argv[1]))
    readable = [Path(limits.ocr_data)] if limits.ocr_data else []
    isolation = confine(readable, memory_bytes=limits.memory_bytes)
    # Answers have a stream of their own: a library that prints must not end up between them.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        _write(answers, isolation)
        while line := sys.stdin.buffer.readline():
            request = json.loads(line)
            data = sys.stdin.buffer.read(request["size"])
            limit_cpu_seconds(limits.seconds_for(len(data)))
            _write(answers, _answer(request["reader"], data, Hints(**request["hints"]), limits))


def _answer(reader: str, data: bytes, hints: Hints, limits: ReaderLimits) -> dict[str, Any]:
    try:
        module = importlib.import_module(f"groundline_ingestor.adapters.extraction.readers.{reader}")
        read: Read = module.read(data, hints, limits)
        if read.markdown and not read.headings:
            read = dataclasses.replace(read, headings=read_headings(read.text))
        return {"read": dataclasses.asdict(read)}
    except ReadError as error:
        return {"error": [error.reason, error.message]}
    except (MemoryError, RecursionError):
        return {"error": ["DOCUMENT_TOO_LARGE", "reading it takes more memory than it may"]}


def _write(answers: IO[bytes], answer: object) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
