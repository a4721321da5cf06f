"""A gateway on a real port for the measures to talk to."""

from collections.abc import Iterator

import pytest
from groundline_tests.gateway.running import FakeGateway, fake_gateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """An empty gateway."""
    with fake_gateway() as server:
        yield server
