"""One suite for the session, with a small collection whose documents have metadata."""

import os

# Haystack counts its uses at a server of its maker's unless it is told not to before it is imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from collections.abc import AsyncIterator

import pytest
from groundline_client import AsyncClient
from groundline_client.models import DocumentInput, JobState
from groundline_tests.suite import Stack, running_stack

DOCUMENTS = [
    DocumentInput(
        uri="leave.md",
        title="Leave",
        text="# Leave\n\nFull-time employees have 27 working days of annual leave.",
        metadata={"year": 2024, "team": "people", "uri": "not the address"},
    ),
    DocumentInput(
        uri="tower.md",
        title="Tower",
        text="# Tower\n\nThe tower is 93 metres high and was built in 1912.",
        metadata={"year": 2025, "team": "estate"},
    ),
]


@pytest.fixture(scope="session")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """The suite with DOCUMENTS in the collection `docs`."""
    async with running_stack(tmp_path_factory.mktemp("frameworks") / "data") as stack:
        async with AsyncClient(stack.ready["gateway"], stack.ready["api_key"]) as client:
            await client.create_collection("docs")
            job = (await client.ingest_documents("docs", DOCUMENTS)).job
            assert job is not None
            assert (await client.wait_for_job(job.job_id)).state == JobState.DONE
        yield stack
