"""The chat page and the reference of the API as they are served."""

import base64
import hashlib
import re

import httpx
import pytest

on_both_pages = pytest.mark.parametrize("path", ["/", "/docs"])


@on_both_pages
async def test_a_page_needs_no_key_and_runs_nothing_but_its_own(
    anonymous: httpx.AsyncClient, path: str
) -> None:
    response = await anonymous.get(path)

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (inline,) = re.findall(rf"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


@on_both_pages
async def test_a_page_names_no_other_host(anonymous: httpx.AsyncClient, path: str) -> None:
    page = (await anonymous.get(path)).text

    # The one left is the name of SVG's vocabulary, which nothing fetches.
    assert set(re.findall(r"https?://[^'\"\s)]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in page


async def test_the_openapi_document_needs_no_key(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/openapi.json")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["paths"].keys() >= {"/api/chat", "/api/search"}
