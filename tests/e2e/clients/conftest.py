"""A browser, and a tab of it that shows the console of a running suite."""

from collections.abc import AsyncIterator

import httpx
import pytest
from groundline_tests.browser import Tab, browser
from groundline_tests.gateway.console import axe_program
from groundline_tests.suite import Stack


@pytest.fixture(scope="module")
def axe() -> str:
    """The program that finds what keeps people from using a page, of the console's locked packages."""
    return axe_program()


@pytest.fixture(scope="module")
async def module_browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    async with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
async def tab(stack: Stack, module_browser: Tab) -> AsyncIterator[Tab]:
    await module_browser.open(f"{stack.ready['gateway']}/#key={stack.ready['api_key']}")
    await module_browser.resize(1280, 800)
    yield module_browser
    assert module_browser.complaints == []
    origins = {httpx.URL(url).netloc.decode() for url in module_browser.requested if url.startswith("http")}
    assert origins == {httpx.URL(stack.ready["gateway"]).netloc.decode()}
