"""Crawls: sitemaps, what has not changed, and servers that ask for time."""

import gzip
from datetime import UTC, datetime, timedelta

import pytest
from groundline_collector.adapters.crawling import HttpCrawler
from groundline_collector.changes import Found
from groundline_extraction.sandbox import Sandbox
from groundline_tests.collector import LIMITS, Answer, Crawl, MemorySeenPages, Names, Site, page, reason, web

# --- sitemaps ---


def sitemap(*paths: str, kind: str = "url", site: Site, changed: str = "") -> bytes:
    root = {"url": "urlset", "sitemap": "sitemapindex"}[kind]
    lastmod = f"<lastmod>{changed}</lastmod>" if changed else ""
    entries = "".join(f"<{kind}><loc>{site.url}{path}</loc>{lastmod}</{kind}>" for path in paths)
    return (
        f"<?xml version='1.0' encoding='UTF-8'?>"
        f"<{root} xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</{root}>"
    ).encode()


XML = {"Content-Type": "application/xml"}


async def test_pages_of_a_sitemap_are_found_after_the_links_of_the_start(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/sitemap.xml": Answer(sitemap("/hidden", "/linked", "/other/x", site=site), headers=XML),
        "/": page("/linked"),
        "/linked": page(),
        "/hidden": page("/deeper"),
        "/deeper": page(),
        "/other/x": page(),
    }
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0, exclude_paths=["/other/**"])
    assert pages == [f"{site.url}{path}" for path in ("/", "/linked", "/hidden", "/deeper")]
    assert failures == {}
    assert (await crawl(f"{site.url}/", delay_seconds=0, max_depth=0))[0] == [f"{site.url}/"]


async def test_robots_txt_names_sitemaps_packed_ones_indexes_and_lists_too(site: Site, crawl: Crawl) -> None:
    index = sitemap("/one.xml.gz", "/two.txt", "/index.xml", kind="sitemap", site=site)
    site.answers = {
        "/robots.txt": Answer(
            f"Sitemap: {site.url}/index.xml\nSitemap: http://other.test/sitemap.xml".encode()
        ),
        "/index.xml": Answer(index, headers=XML),
        "/one.xml.gz": Answer(
            gzip.compress(sitemap("/a", site=site)), headers={"Content-Type": "application/gzip"}
        ),
        "/two.txt": Answer(f"{site.url}/b\n".encode(), headers={"Content-Type": "text/plain"}),
        "/": page(),
        "/a": page(),
        "/b": page(),
    }
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0)
    assert pages == [f"{site.url}{path}" for path in ("/", "/a", "/b")]
    assert failures == {}


async def test_a_sitemap_that_should_be_there_and_is_unreadable_is_told(site: Site, sandbox: Sandbox) -> None:
    bomb = b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
        f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>".encode() for n in range(9)
    )
    site.answers = {
        "/robots.txt": Answer(
            "\n".join(f"Sitemap: {site.url}/{name}" for name in ("gone", "page", "broken", "bomb")).encode()
        ),
        "/page": page(),
        "/broken": Answer(status=503),
        "/bomb": Answer(bomb + b"]><urlset><url><loc>&j;</loc></url></urlset>", headers=XML),
        "/": page(),
    }
    crawler = HttpCrawler(sandbox, LIMITS, resolve=Names(site_test=["127.0.0.1"]))
    found = [one async for one in crawler.crawl(web(f"{site.url}/", delay_seconds=0), private_addresses=True)]
    assert [one.uri for one in found if isinstance(one, Found)] == [f"{site.url}/"]
    others = [one for one in found if not isinstance(one, Found)]
    assert {one.unreadable.uri: reason(one) for one in others if one.HasField("unreadable")} == {
        f"{site.url}/gone": "HTTP_STATUS",
        f"{site.url}/page": "UNSUPPORTED_TYPE",
        f"{site.url}/broken": "HTTP_STATUS",
        f"{site.url}/bomb": "UNSUPPORTED_TYPE",
    }
    assert not any(one.HasField("reached") for one in others), "there may be pages that it alone lists"


# --- again ---


async def test_what_has_not_changed_is_not_sent_again_and_leads_to_others(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": Answer(page("/a", "/b").body, headers={"Content-Type": "text/html", "ETag": '"1"'}),
        "/a": Answer(
            page("/c").body,
            headers={"Content-Type": "text/html", "Last-Modified": "Sun, 22 Nov 2026 10:00:00 GMT"},
        ),
        "/b": page(),
        "/c": page(),
    }
    seen = MemorySeenPages()
    first, _ = await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    site.statuses.clear()
    again, _ = await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    assert again == [f"={site.url}/", f"={site.url}/a", f"{site.url}/b", f"{site.url}/c"]
    assert first == [url.lstrip("=") for url in again]
    assert {path for path, status in site.statuses if status == 304} == {"/", "/a"}

    # A document that is not what was seen is read again.
    seen.outdated.add(f"{site.url}/a")
    assert f"{site.url}/a" in (await crawl(f"{site.url}/", delay_seconds=0, seen=seen))[0]


async def test_a_page_that_changed_long_before_it_was_read_by_its_sitemap_is_not_asked_for(
    site: Site, crawl: Crawl
) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    old, new = sitemap("/old", site=site, changed="2020-01-01"), sitemap("/new", site=site, changed=yesterday)
    site.answers = {
        "/robots.txt": Answer(f"Sitemap: {site.url}/old.xml\nSitemap: {site.url}/new.xml".encode()),
        "/old.xml": Answer(old, headers=XML),
        "/new.xml": Answer(new, headers=XML),
        "/": page(),
        "/old": page("/under"),
        "/under": page(),
        "/new": page(),
    }
    seen = MemorySeenPages()
    await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    site.asked.clear()
    pages, _ = await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    assert set(pages) == {f"{site.url}/", f"={site.url}/old", f"{site.url}/new", f"{site.url}/under"}
    assert "/old" not in site.paths


async def test_a_page_that_fails_for_now_still_leads_to_where_it_led(site: Site, crawl: Crawl) -> None:
    site.answers = {"/": page("/a"), "/a": page("/b"), "/b": page()}
    seen = MemorySeenPages()
    await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    site.answers["/a"] = Answer(status=500)
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0, seen=seen)
    assert pages == [f"{site.url}/", f"{site.url}/b"]
    assert failures == {f"{site.url}/a": "HTTP_STATUS"}


# --- servers that are busy ---


async def test_a_server_is_given_the_time_that_it_asks_for(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": [Answer(status=429, headers={"Retry-After": "17"}), page("/a")],
        "/a": [Answer(status=503, headers={"Retry-After": "0"}), page()],
    }
    pauses: list[float] = []
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0, pauses=pauses)
    assert (pages, failures) == ([f"{site.url}/", f"{site.url}/a"], {})
    assert [round(pause) for pause in pauses if pause > 1] == [17]


@pytest.mark.parametrize("seconds", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
async def test_a_server_that_asks_for_long_is_left_alone(site: Site, crawl: Crawl, seconds: str) -> None:
    site.answers = {
        "/": page("/a", "/b"),
        "/a": Answer(status=429, headers={"Retry-After": seconds}),
        "/b": page(),
    }
    pauses: list[float] = []
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0, pauses=pauses)
    assert (pages, failures) == ([f"{site.url}/"], {f"{site.url}/a": "HTTP_STATUS"})
    assert "/b" not in site.paths
    assert max(pauses, default=0) < 1


async def test_a_server_that_fails_again_and_again_is_left_alone(site: Site, crawl: Crawl) -> None:
    failing = {f"/{n}": Answer(status=500) for n in range(20)}
    site.answers = {"/": page(*failing), **failing}
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0)
    assert pages == [f"{site.url}/"]
    assert len(failures) == 5


async def test_two_crawls_of_a_host_take_turns(site: Site, sandbox: Sandbox) -> None:
    site.answers = {"/": page("/a"), "/a": page()}
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    crawler = HttpCrawler(sandbox, LIMITS, resolve=Names(site_test=["127.0.0.1"]), sleep=pause)
    request = web(f"{site.url}/", max_depth=0, delay_seconds=30)
    for _ in range(2):
        [found, _] = [one async for one in crawler.crawl(request, private_addresses=True)]
        assert isinstance(found, Found)
    assert [round(pause) for pause in pauses] == [30]
