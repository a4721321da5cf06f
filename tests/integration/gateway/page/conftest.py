"""A browser, and a tab of it that shows the page."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from groundline_tests.browser import Tab, browser
from groundline_tests.gateway.page import KEY


@pytest.fixture(scope="module")
async def module_browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    async with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
async def tab(module_browser: Tab, gateway: Any) -> Tab:
    """The page, signed in."""
    await module_browser.open(f"{gateway.url}/#key={KEY}")
    await module_browser.resize(1280, 800)
    return module_browser
