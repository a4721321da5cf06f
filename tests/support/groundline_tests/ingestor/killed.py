"""A process that replaces a document and is killed with SIGKILL behind a step of it.

python -m groundline_tests.ingestor.killed DATABASE_URL COLLECTION TEXT STEP; the step is a function of the
module that stores versions, or "committed".
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from typing import Any, NoReturn

from groundline_database import DatabaseSettings, acquire, open_pool, register_vectors
from groundline_extraction.texts import TextSegment
from groundline_ingestor.adapters.postgres.documents import versions
from groundline_ingestor.adapters.postgres.stores import stores_on
from groundline_lexical import detect_lexical_index
from pydantic import SecretStr

from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import a_new


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def main(url: str, collection_id: str, text: str, step: str) -> None:
    original = getattr(versions, step, None)

    async def killed(*arguments: Any, **named: Any) -> NoReturn:
        assert original is not None
        await original(*arguments, **named)
        die()

    if original is not None:
        setattr(versions, step, killed)
    async with open_pool(DatabaseSettings(database_url=SecretStr(url)), init=register_vectors) as pool:
        async with acquire(pool) as connection:
            lexical = await detect_lexical_index(connection)
        stores = stores_on(pool, lexical)
        collection = await stores.collections.find(collection_id)
        assert collection is not None
        new = a_new(replace(a_version("a.md", text), content_hash=b"c"), text)
        await stores.versions.store(collection, [replace(new, segments=[TextSegment(text)])])
    die()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
