"""Migrations that databases have applied: a change of their files would leave those databases behind."""

import pytest
from groundline_database import migrations_of

LANDED = {
    ("coordinator", 1): "bb26d16ed33d61c35a4ba1feaa327efc0e30699c3b8f81ca9a60ee2b809724f9",
    ("coordinator", 2): "243fe429ed66d5e6f6f4644ee0c53a6e1095bbbb7e4f3ba82a80daf18f8ae740",
    ("gateway", 1): "1dc652f87adc67ddd5f8a2ffb43c9a81fd65bcbf4f8953fdc7c33ff7fce73ffa",
    ("ingestor", 1): "bb2126ee4f56c5afc82af9e646d50eaa713a9220ea656ea55ae796682ddfc687",
}
"""Service and version → checksum. A new file is added here when it lands, and its line never changes."""


@pytest.mark.parametrize(("service", "version"), LANDED)
def test_a_migration_that_has_landed_is_never_edited(service: str, version: int) -> None:
    assert migrations_of(service)[version - 1].checksum == LANDED[service, version]
