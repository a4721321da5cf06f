"""The console and the reference of the API as they are served."""

import base64
import gzip
import hashlib
import re

import httpx
import pytest

MAX_CONSOLE_BYTES = 150_000
"""Maximum size of the console with all that it loads at once, compressed."""
MAX_WHOLE_CONSOLE_BYTES = 300_000
"""Maximum size with the views that are loaded when they are shown, too."""

on_both_pages = pytest.mark.parametrize("path", ["/", "/docs"])


async def console_paths(client: httpx.AsyncClient) -> list[str]:
    """Return the paths of what the page loads at once, and behind them of what that loads later."""
    page = (await client.get("/")).text
    paths = [f"/{path}" for path in re.findall(r'(?:src|href)="\./(console/[^"]+)"', page)]
    for path in paths:
        found = re.findall(r"[\"'`]\./([\w.-]+-[\w-]{8}\.(?:js|css))[\"'`]", (await client.get(path)).text)
        paths += [later for name in found if (later := f"/console/{name}") not in paths]
    return paths


@on_both_pages
async def test_a_page_needs_no_key_and_runs_only_its_own(anonymous: httpx.AsyncClient, path: str) -> None:
    response = await anonymous.get(path)

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-store"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        inline = re.findall(rf"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
        allowed = [
            f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in inline
        ]
        assert f"{tag}-src {' '.join(allowed or ["'self'"])};" in policy
    assert not re.search(r"\s(style|on\w+)=", response.text)


@on_both_pages
async def test_a_page_names_no_other_host(anonymous: httpx.AsyncClient, path: str) -> None:
    parts = [path]
    if path == "/":
        parts += await console_paths(anonymous)
    page = "".join([(await anonymous.get(each)).text for each in parts])

    # The names of vocabularies, which nothing fetches.
    hosts = {httpx.URL(found).host for found in re.findall(r"https?://[\w.-]+[^'\"`\s)]*", page)}
    assert hosts == {"www.w3.org"}


async def test_neither_page_makes_markup_of_text(anonymous: httpx.AsyncClient) -> None:
    policy = (await anonymous.get("/")).headers["content-security-policy"]
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "innerHTML" not in (await anonymous.get("/docs")).text


async def test_the_files_of_the_console_are_small_and_kept_by_browsers(anonymous: httpx.AsyncClient) -> None:
    page, paths = await anonymous.get("/"), await console_paths(anonymous)
    assert {path.rpartition(".")[2] for path in paths} == {"js", "css"}
    size = at_once = len(gzip.compress(page.content))
    for path in paths:
        response = await anonymous.get(path)
        kind = "text/javascript" if path.endswith("js") else "text/css"
        assert response.headers["content-type"] == f"{kind}; charset=utf-8"
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert len(response.content) < 4096 or response.headers["content-encoding"] == "gzip"
        assert response.headers["x-content-type-options"] == "nosniff"
        part = len(gzip.compress(response.content, 1))
        size += part
        at_once += part if path in page.text else 0
    assert at_once <= MAX_CONSOLE_BYTES
    assert size <= MAX_WHOLE_CONSOLE_BYTES


async def test_the_licences_of_what_the_console_is_made_of_come_with_it(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/console/licences.md")

    assert "preact" in response.text
    assert "MIT License" in response.text
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/console/", "/console/gone-00000000.js", "/console/../index.html"])
async def test_what_is_no_file_of_the_console_is_not_found(anonymous: httpx.AsyncClient, path: str) -> None:
    response = await anonymous.get(path)

    assert response.status_code == 404
    assert response.headers["cache-control"] == "no-store"


async def test_the_openapi_document_needs_no_key(anonymous: httpx.AsyncClient) -> None:
    response = await anonymous.get("/openapi.json")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["paths"].keys() >= {"/api/chat", "/api/search"}
