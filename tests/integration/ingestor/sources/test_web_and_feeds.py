"""Sources on the web: sites and feeds."""

import base64
import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from groundline.v1 import ingestor_service_pb2 as pb
from groundline_database import Pool, acquire
from groundline_tests.http_server import Answering, listening
from groundline_tests.ingestor.site import Site, serving
from groundline_tests.ingestor.sources import OWNER, create, documents, first_run, preview, run, text_of

# --- web ---


async def test_a_web_site_is_followed(stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.", "/leave", "/travel")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.put("/travel", "Travel is by train.")
        source_id = await create(stub, collection_id, {"web": {"startUrl": site.url, "delaySeconds": 0}})
        assert len(await first_run(stub, collection_id, source_id)) == 3

        site.put("/", "Welcome to the new handbook.", "/leave", "/travel")
        del site.pages["/travel"]
        would_be = {f"{site.url}/": "UPDATED", f"{site.url}/travel": "DELETED"}
        assert await preview(stub, collection_id, source_id) == would_be
        assert await run(stub, collection_id, source_id) == {
            f"{site.url}/": "UPDATED",
            f"{site.url}/travel": "HTTP_STATUS",
        }
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}
        # A page that fails may be the only one that leads to others.
        site.pages.clear()
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /"
        await run(stub, collection_id, source_id)
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}


async def test_unchanged_pages_are_not_sent_again(pool: Pool, stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.has_etags = True
        site.put("/", "Welcome to the handbook.", "/leave", "/travel")
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.put("/travel", "Travel is by train.")
        source_id = await create(stub, collection_id, {"web": {"startUrl": site.url, "delaySeconds": 0}})
        assert len(await first_run(stub, collection_id, source_id)) == 3

        site.put("/leave", "Everybody has thirty days of leave.")
        site.answered.clear()
        assert await run(stub, collection_id, source_id) == {f"{site.url}/leave": "UPDATED"}
        pages = {path: status for path, status in site.answered if path in site.pages}
        assert pages == {"/": 304, "/leave": 200, "/travel": 304}

        # A page that was deleted by hand is brought again, and a full run asks for every page.
        document = (await documents(stub, collection_id))[f"{site.url}/travel"]
        await stub.DeleteDocument(
            pb.DeleteDocumentRequest(collection_id=collection_id, document_id=document.document_id),
            metadata=OWNER,
        )
        assert await run(stub, collection_id, source_id) == {f"{site.url}/travel": "CREATED"}
        site.answered.clear()
        assert set((await run(stub, collection_id, source_id, full=True)).values()) == {"UNCHANGED"}
        assert 304 not in dict(site.answered).values()

        # A page that fails for a while is kept, as are the pages that it linked to.
        site.put("/", "Welcome to the new handbook.", "/leave")
        del site.pages["/travel"]
        site.statuses["/"] = 503
        outcomes = await run(stub, collection_id, source_id)
        assert outcomes == {f"{site.url}/": "HTTP_STATUS", f"{site.url}/travel": "HTTP_STATUS"}
        assert set(await documents(stub, collection_id)) == {f"{site.url}/", f"{site.url}/leave"}

        # A page that asks to be left out goes.
        site.statuses.clear()
        site.pages["/leave"] = "<html><head><meta name=robots content=noindex></head><p>Left out.</p></html>"
        await run(stub, collection_id, source_id)
        assert set(await documents(stub, collection_id)) == {f"{site.url}/"}
    async with acquire(pool) as connection:
        seen = await connection.fetch("SELECT url FROM seen_pages WHERE source_id = $1::uuid", source_id)
    assert {row["url"] for row in seen} == {f"{site.url}/", f"{site.url}/leave"}


# --- feeds ---


@dataclass
class Feed:
    """A feed for user:token alone; `url` redirects to it. `asked`: the status of each of its answers."""

    content: str = ""
    asked: list[int] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def feed() -> Iterator[Feed]:
    served = Feed()
    expected = f"Basic {base64.b64encode(b'user:token').decode()}"

    class Handler(Answering):
        def do_GET(self) -> None:  # noqa: N802
            if self.path == "/moved":
                self.answer(301, b"", {"Location": "/feed"})
                return
            content = gzip.compress(served.content.encode(), mtime=0)
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            if self.headers["authorization"] != expected:
                status, content = 401, b""
            elif self.headers["if-none-match"] == etag:
                status, content = 304, b""
            else:
                status = 200
            served.asked.append(status)
            self.send_response(status)
            self.send_header("ETag", etag)
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Encoding", "gzip")
            if status != 304:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with listening(Handler) as url:
        served.url = f"{url}/moved"
        yield served


def rss(*items: str) -> str:
    return f'<rss version="2.0"><channel><title>News</title>{"".join(items)}</channel></rss>'


def rss_item(link: str, title: str, text: str) -> str:
    return (
        f"<item><title>{title}</title><link>{link}</link><author>ann@example.com (Ann)</author>"
        f"<category>people</category><pubDate>Mon, 02 Nov 2026 10:00:00 +0100</pubDate>"
        f"<description>&lt;p&gt;{text}&lt;/p&gt;</description></item>"
    )


async def test_a_feed_is_followed(stub: Any, collection_id: str, secrets: Path, feed: Feed) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    leave, pay = "https://news.test/leave#today", "https://news.test/pay"
    feed.content = rss(
        rss_item(leave, "Leave", "Everybody has &lt;b&gt;twenty-seven&lt;/b&gt; days."),
        rss_item(pay, "Pay", "At the end of the month."),
        rss_item("https://news.test/ads/1", "Buy", "Not wanted."),
    )
    source = {
        "feed": {"url": feed.url, "username": "user", "passwordSecret": "feed"},
        "excludePaths": ["/ads/**"],
        "uriPrefix": "https://news.test/",
    }
    source_id = await create(stub, collection_id, source)
    assert await first_run(stub, collection_id, source_id) == {leave: "CREATED", pay: "CREATED"}
    document = (await documents(stub, collection_id))[leave]
    assert (document.title, json_format.MessageToDict(document.metadata)) == (
        "Leave",
        {"author": "ann@example.com (Ann)", "categories": ["people"], "published": "2026-11-02T09:00:00Z"},
    )
    assert await text_of(stub, document) == "# Leave\n\nEverybody has twenty-seven days."
    assert await run(stub, collection_id, source_id) == {}

    new = "https://news.test/travel"
    feed.content = rss(rss_item(leave, "Leave", "Thirty days."), rss_item(new, "Travel", "By train."))
    assert await run(stub, collection_id, source_id) == {leave: "UPDATED", new: "CREATED"}
    assert set(await documents(stub, collection_id)) == {leave, pay, new}
    assert feed.asked == [200, 304, 200]

    (secrets / collection_id / "feed").write_text("revoked")
    assert await run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}


async def test_a_feed_speaks_for_its_host(stub: Any, collection_id: str, secrets: Path, feed: Feed) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    own, foreign = feed.url.replace("moved", "leave"), "https://bank.test/account"
    feed.content = rss(rss_item(own, "Leave", "Thirty days."), rss_item(foreign, "Account", "Send it here."))
    source = {"feed": {"url": feed.url, "username": "user", "passwordSecret": "feed"}}
    source_id = await create(stub, collection_id, source)
    named = f"{feed.url}#{foreign}"
    assert await first_run(stub, collection_id, source_id) == {own: "CREATED", named: "CREATED"}
    assert (await documents(stub, collection_id))[named].metadata["link"] == foreign


async def test_a_feed_brings_linked_pages(stub: Any, collection_id: str, secrets: Path, feed: Feed) -> None:
    (secrets / collection_id / "feed").write_text("token\n")
    with serving(Site()) as site:
        site.put("/leave", "Everybody has twenty-seven days of leave.")
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /secret"
        site.pages["/hidden"] = '<html><head><meta name="robots" content="noindex"></head>Hidden</html>'
        feed.content = rss(
            rss_item(f"{site.url}/leave", "Leave", "In short."),
            rss_item(f"{site.url}/hidden", "Hidden", "In short."),
            rss_item(f"{site.url}/gone", "Gone", "In short."),
            rss_item(f"{site.url}/secret", "Secret", "In short."),
        )
        source_id = await create(
            stub,
            collection_id,
            {"feed": {"url": feed.url, "username": "user", "passwordSecret": "feed", "linkedPages": True}},
        )
        assert await first_run(stub, collection_id, source_id) == {
            f"{site.url}/leave": "CREATED",
            f"{site.url}/gone": "HTTP_STATUS",
            f"{site.url}/secret": "ROBOTS_DISALLOWED",
            f"{site.url}/hidden": "ROBOTS_DISALLOWED",
        }
        document = (await documents(stub, collection_id))[f"{site.url}/leave"]
        assert document.title == "Leave"
        assert "twenty-seven days of leave" in await text_of(stub, document)


async def test_a_page_that_is_no_feed_fails_the_run(stub: Any, collection_id: str) -> None:
    with serving(Site()) as site:
        site.put("/", "Welcome to the handbook.")
        source_id = await create(stub, collection_id, {"feed": {"url": site.url}})
        assert await first_run(stub, collection_id, source_id) == {"handbook": "SOURCE_REFUSED"}
