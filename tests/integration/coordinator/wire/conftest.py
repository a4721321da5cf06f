"""Collections that chats search."""

from collections.abc import Awaitable, Callable

import pytest
from groundline_tests.coordinator.fakes import DOCUMENT_ID


@pytest.fixture(scope="module", autouse=True)
async def docs(
    add_collection: Callable[..., Awaitable[None]], add_document: Callable[..., Awaitable[None]]
) -> None:
    await add_collection("docs", settings={"generation": {"model": "m"}})
    await add_document("docs", DOCUMENT_ID, title="Operations", metadata={"team": "ops", "year": 2026})
    await add_collection("staff", readers=("group:staff",))
