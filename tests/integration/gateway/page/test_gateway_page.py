"""The console and the reference of the API as they are served."""

import base64
import gzip
import hashlib
import re

import httpx
import pytest

MAX_FIRST_BYTES = 150_000
MAX_CONSOLE_BYTES = 300_000
"""Maximum sizes, compressed, of what the console loads at first, and of all of it."""

on_both_pages = pytest.mark.parametrize("path", ["/", "/docs"])


async def console_paths(client: httpx.AsyncClient) -> list[str]:
    """Return what the page loads at first."""
    page = (await client.get("/")).text
    return [f"/{path}" for path in re.findall(r'(?:src|href)="\./(console/[^"]+)"', page)]


async def later_paths(client: httpx.AsyncClient) -> list[str]:
    """Return what it loads when a view is first shown."""
    found = [(await client.get(path)).text for path in await console_paths(client) if path.endswith("js")]
    names = re.findall(r"\./([\w-]+-[\w-]{8}\.js)", "".join(found))
    assert names
    return [f"/console/{name}" for name in dict.fromkeys(names)]


@on_both_pages
async def test_a_page_needs_no_key_and_runs_nothing_but_its_own(
    anonymous: httpx.AsyncClient, path: str
) -> None:
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
        parts += [*await console_paths(anonymous), *await later_paths(anonymous)]
    page = "".join([(await anonymous.get(each)).text for each in parts])

    # The names of vocabularies, which nothing fetches.
    hosts = {httpx.URL(found).host for found in re.findall(r"https?://[\w.-]+[^'\"`\s)]*", page)}
    assert hosts == {"www.w3.org"}


async def test_neither_page_makes_markup_of_text(anonymous: httpx.AsyncClient) -> None:
    policy = (await anonymous.get("/")).headers["content-security-policy"]
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "innerHTML" not in (await anonymous.get("/docs")).text


async def test_the_files_of_the_console_are_small_and_kept_by_browsers(anonymous: httpx.AsyncClient) -> None:
    paths = await console_paths(anonymous)
    assert {path.rpartition(".")[2] for path in paths} == {"js", "css"}
    sizes = [len(gzip.compress((await anonymous.get("/")).content))]
    for path in [*paths, *await later_paths(anonymous)]:
        response = await anonymous.get(path)
        kind = "text/javascript" if path.endswith("js") else "text/css"
        assert response.headers["content-type"] == f"{kind}; charset=utf-8"
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["content-encoding"] == "gzip"
        assert response.headers["x-content-type-options"] == "nosniff"
        sizes.append(len(gzip.compress(response.content, 1)))
    assert sum(sizes[: len(paths) + 1]) <= MAX_FIRST_BYTES
    assert sum(sizes) <= MAX_CONSOLE_BYTES


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
