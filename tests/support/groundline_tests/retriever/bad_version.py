"""A program: the retriever as a version that should not be in use: `bad_version.py FAULT`.

It ranks the worst first (`wrong`), takes its time (`slow`), or dies of its fortieth search (`crashing`).
"""

# ruff: noqa: N802 - the contract names the method
import asyncio
import os
import sys
import time
from typing import Any

from groundline.v1 import retriever_service_pb2 as pb
from groundline_retriever import __main__ as retriever
from groundline_retriever.servicer import RetrieverServicer

FAULT = sys.argv.pop()
SLOWED = 4
LAST_SEARCH = 40


class BadServicer(RetrieverServicer):
    searches = 0

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        self.searches += 1
        if FAULT == "crashing" and self.searches == LAST_SEARCH:
            os.abort()
        begun = time.monotonic()
        response = await super().Search(request, context)
        if FAULT == "slow":
            # A multiple, however busy the machine is; and longer than the way to it takes.
            await asyncio.sleep(0.3 + SLOWED * (time.monotonic() - begun))
        if FAULT == "wrong":
            worst_first = list(response.passages)[::-1]
            del response.passages[:]
            response.passages.extend(worst_first)
        return response


if __name__ == "__main__":
    retriever.RetrieverServicer = BadServicer  # type: ignore[attr-defined]
    retriever.main()
