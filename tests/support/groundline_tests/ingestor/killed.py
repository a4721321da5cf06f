"""A process that changes what is stored, and is killed with SIGKILL behind a step of it.

The step is a function that the operation's module calls, a method with its class, or "committed". Operations:
replace COLLECTION TEXT, swap, revert COLLECTION JOB.
"""

import asyncio
import os
import signal
from dataclasses import replace
from functools import reduce
from typing import Any, Final, NoReturn

from groundline_database import DatabaseSettings, acquire, open_pool, register_vectors
from groundline_extraction.texts import TextSegment
from groundline_ingestor.adapters.postgres import reindex
from groundline_ingestor.adapters.postgres.documents import reverting, versions
from groundline_ingestor.adapters.postgres.stores import Stores, stores_on
from groundline_lexical import detect_lexical_index
from pydantic import SecretStr

from groundline_tests.commands.processes import forked
from groundline_tests.ingestor.messages import a_version
from groundline_tests.ingestor.stores import a_new

COMMITTED: Final = "committed"


async def killed(database_url: str, step: str, *operation: str) -> int:
    """Have a process of its own do an operation, and be killed behind a step; return its exit code."""
    process = forked(run, database_url, step, *operation)
    await asyncio.to_thread(process.join)
    assert process.exitcode is not None
    return process.exitcode


async def put_a(stores: Stores, collection_id: str, text: str) -> None:
    collection = await stores.collections.find(collection_id)
    assert collection is not None
    new = a_new(replace(a_version("a.md", text), content_hash=b"c"), text)
    await stores.versions.store(collection, [replace(new, segments=[TextSegment(text)])])


async def swap(stores: Stores) -> None:
    assert await stores.reindex.settle(3600)


async def revert(stores: Stores, collection_id: str, job_id: str) -> None:
    collection = await stores.collections.find(collection_id)
    assert collection is not None
    await stores.reverts.revert(collection, job_id, (), "once", overwrite=False)


OPERATIONS: Final[dict[str, tuple[Any, Any]]] = {
    "replace": (versions, put_a),
    "swap": (reindex, swap),
    "revert": (reverting, revert),
}


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def kill_behind(module: Any, step: str) -> None:
    *classes, name = step.split(".")
    owner = reduce(getattr, classes, module)
    original = getattr(owner, name)

    async def deadly(*arguments: Any, **named: Any) -> NoReturn:
        await original(*arguments, **named)
        die()

    setattr(owner, name, deadly)


async def main(url: str, step: str, name: str, *arguments: str) -> None:
    module, operation = OPERATIONS[name]
    if step != COMMITTED:
        kill_behind(module, step)
    async with open_pool(DatabaseSettings(database_url=SecretStr(url)), init=register_vectors) as pool:
        async with acquire(pool) as connection:
            lexical = await detect_lexical_index(connection)
        await operation(stores_on(pool, lexical), *arguments)
    if step == COMMITTED:
        die()


def run(*arguments: str) -> None:
    asyncio.run(main(*arguments))
