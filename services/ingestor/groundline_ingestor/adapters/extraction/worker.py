"""The process that reads risky formats: one request after the other on stdin, answers on stdout.

A request is a line of JSON, {"format": name, "size": bytes}, and the bytes; an answer is a line of JSON.
"""

import dataclasses
import importlib
import json
import os
import resource
import sys
from typing import IO, Any

from groundline_ingestor.adapters.extraction.readers.common import Limits, ReadError

__all__ = ["main"]


def main() -> None:
    limits = Limits(**json.loads(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Answers have a stream of their own: a library that prints must not end up between them.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        while line := sys.stdin.buffer.readline():
            request = json.loads(line)
            _answer(request["format"], sys.stdin.buffer.read(request["size"]), limits, answers)


def _answer(format_name: str, data: bytes, limits: Limits, answers: IO[bytes]) -> None:
    try:
        reader = importlib.import_module(f"groundline_ingestor.adapters.extraction.readers.{format_name}")
        answer: dict[str, Any] = {"read": dataclasses.asdict(reader.read(data, limits))}
    except ReadError as error:
        answer = {"error": [error.reason, error.message]}
    except (MemoryError, RecursionError):
        answer = {"error": ["DOCUMENT_TOO_LARGE", "reading it takes more memory than it may"]}
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
