"""A gateway that keeps everything in memory."""

from collections.abc import Iterator

import pytest
from groundline_tests.gateway.running import FakeGateway, fake_gateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with fake_gateway() as running:
        yield running
