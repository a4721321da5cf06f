"""A crawl of a real server: which pages come, which do not, and which addresses are never reached."""

import gzip
from collections.abc import Sequence

import pytest
from groundline_collector.adapters import crawling
from groundline_collector.adapters.crawling import HttpCrawler
from groundline_collector.adapters.fetching import CrawlLimits
from groundline_collector.changes import Found
from groundline_extraction.sandbox import Sandbox
from groundline_tests.collector import LIMITS, PUBLIC, Answer, Crawl, Names, Site, page, reason, redirect, web

# --- addresses ---


async def test_a_private_address_is_refused_unless_the_collection_allows_it(site: Site, crawl: Crawl) -> None:
    site.answers["/"] = page()
    pages, failures = await crawl(f"{site.url}/", private_addresses=False)
    assert (pages, failures) == ([], {f"{site.url}/": "ADDRESS_NOT_ALLOWED"})
    assert site.asked == []
    assert (await crawl(f"{site.url}/"))[0] == [f"{site.url}/"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"]
)
async def test_no_spelling_of_a_private_address_gets_through(site: Site, sandbox: Sandbox, host: str) -> None:
    site.answers["/"] = page()
    crawler = HttpCrawler(sandbox)
    asked = web(f"http://{host}:{site.port}/")
    found = [one async for one in crawler.crawl(asked, private_addresses=False)]
    assert [one.HasField("unreadable") for one in found if not isinstance(one, Found)] == [True]
    assert site.asked == []


async def test_a_name_with_one_private_address_among_others_is_refused(site: Site, crawl: Crawl) -> None:
    class Both(Names):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            return [PUBLIC, "127.0.0.1"]

    _, failures = await crawl(f"{site.url}/", names=Both(), private_addresses=False)
    assert list(failures.values()) == ["ADDRESS_NOT_ALLOWED"]


@pytest.mark.parametrize("moment", ["redirect", "robots", "rebinding"])
async def test_every_connection_is_checked(site: Site, sandbox: Sandbox, moment: str) -> None:
    """Here 127.0.0.1 counts as public, so that the first request gets through."""
    names = Names(site_test=["127.0.0.1"], inside_test=["10.0.0.1"])
    inside = f"http://inside.test:{site.port}/"
    site.answers = {"/": page(), "/secret": page()}
    match moment:
        case "redirect":
            site.answers["/"] = redirect(inside)
        case "robots":
            site.answers["/robots.txt"] = redirect(inside)
        case "rebinding":
            names = Names(site_test=["127.0.0.1", "10.0.0.1"])  # another answer after robots.txt
    crawler = HttpCrawler(sandbox, resolve=names, is_public=lambda address: address == "127.0.0.1")
    asked = web(f"{site.url}/", delay_seconds=0)
    found = [one async for one in crawler.crawl(asked, private_addresses=False)]
    assert [reason(one) for one in found] == ["ADDRESS_NOT_ALLOWED"]


async def test_a_name_is_asked_once_a_connection_and_kept_in_the_request(site: Site, crawl: Crawl) -> None:
    site.answers["/"] = page()
    names = Names(site_test=["127.0.0.1"])
    await crawl(f"{site.url}/", names=names)
    assert names.asked == ["site.test"] * len(site.asked)
    assert {host for host, _ in site.asked} == {f"site.test:{site.port}"}


# --- pages ---


async def test_pages_come_by_their_distance_each_once_and_only_of_the_host(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": page("/a", "b#x", "/a#y", "http://other.test/x", "mailto:x@y", "/missing"),
        "/a": page("/", "/a/deep"),
        "/b": page("/b/more"),
        "/a/deep": page("/too/deep"),
        "/b/more": page(),
        "/too/deep": page(),
    }
    pages, failures = await crawl(f"{site.url}/", max_depth=2)
    assert pages == [f"{site.url}{path}" for path in ("/", "/a", "/b", "/a/deep", "/b/more")]
    assert failures == {f"{site.url}/missing": "HTTP_STATUS"}
    assert len(site.paths) == len(set(site.paths))


async def test_no_more_pages_than_wanted_are_fetched(site: Site, crawl: Crawl) -> None:
    site.answers = {"/": page(*(f"/{n}" for n in range(50))), **{f"/{n}": page() for n in range(50)}}
    pages, _ = await crawl(f"{site.url}/", max_pages=5)
    assert len(pages) == len(site.paths) == 5


async def test_a_site_of_more_addresses_than_are_kept_is_not_read_to_its_end(
    site: Site, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.answers = {"/": page(*(f"/{n}" for n in range(5))), **{f"/{n}": page() for n in range(5)}}

    async def no_pause(seconds: float) -> None:
        pass

    crawler = HttpCrawler(sandbox, LIMITS, resolve=Names(site_test=["127.0.0.1"]), sleep=no_pause)
    for maximum, is_complete in ((100_000, True), (3, False)):
        monkeypatch.setattr(crawling, "MAX_QUEUED_URLS", maximum)
        found = [change async for change in crawler.crawl(web(f"{site.url}/"), private_addresses=True)]
        ends = [change for change in found if not isinstance(change, Found) and change.HasField("reached")]
        # Otherwise the documents of the others would be deleted.
        assert [end.reached.is_complete for end in ends] == ([True] if is_complete else [])


async def test_only_wanted_paths_are_taken_but_the_start_is_followed(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": page("/docs/a", "/docs/old/b", "/blog/c"),
        "/docs/a": page(),
        "/docs/old/b": page(),
        "/blog/c": page(),
    }
    pages, _ = await crawl(f"{site.url}/", include_paths=("/docs/**",), exclude_paths=("/docs/old/*",))
    assert pages == [f"{site.url}/docs/a"]
    assert site.paths == ["/", "/docs/a"]


async def test_links_are_relative_to_the_base_a_page_declares(site: Site, crawl: Crawl) -> None:
    site.answers = {"/": page("x", head="<base href='/base/'>"), "/base/x": page()}
    assert (await crawl(f"{site.url}/"))[0] == [f"{site.url}/", f"{site.url}/base/x"]


async def test_robots_txt_is_heeded(site: Site, crawl: Crawl) -> None:
    rules = b"User-agent: *\nDisallow: /private\nAllow: /private/open\nCrawl-delay: 7"
    site.answers = {
        "/robots.txt": Answer(rules),
        "/": page("/private/a", "/private/open", "/b"),
        "/private/open": page(),
        "/b": page(),
    }
    pauses: list[float] = []
    pages, failures = await crawl(f"{site.url}/", pauses=pauses)
    assert pages == [f"{site.url}{path}" for path in ("/", "/private/open", "/b")]
    assert failures == {}
    assert "/private/a" not in site.paths
    assert [round(pause) for pause in pauses] == [7, 7, 7]  # the sitemap is asked for too
    pages, failures = await crawl(f"{site.url}/private/a")
    assert (pages, failures) == ([], {f"{site.url}/private/a": "ROBOTS_DISALLOWED"})


async def test_while_robots_txt_fails_nothing_is_fetched(site: Site, crawl: Crawl) -> None:
    site.answers = {"/robots.txt": Answer(status=503), "/": page()}
    assert await crawl(f"{site.url}/") == ([], {f"{site.url}/": "HTTP_STATUS"})
    assert site.paths == []


async def test_a_delay_that_was_asked_for_goes_before_that_of_robots_txt(site: Site, crawl: Crawl) -> None:
    site.answers = {"/robots.txt": Answer(b"User-agent: *\nCrawl-delay: 7"), "/": page("/a"), "/a": page()}
    pauses: list[float] = []
    pages, _ = await crawl(f"{site.url}/", delay_seconds=0, pauses=pauses)
    assert len(pages) == 2
    assert pauses == []


async def test_redirects_are_followed_within_the_host_and_not_for_ever(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": page("/moved", "/away", "/loop", "/odd", "/same"),
        "/moved": redirect("/new"),
        "/same": redirect("/new"),
        "/new": page(),
        "/away": redirect("http://other.test/"),
        "/loop": redirect("/loop"),
        "/odd": redirect("file:///etc/passwd"),
    }
    names = Names(site_test=["127.0.0.1"], other_test=["127.0.0.1"])
    pages, failures = await crawl(f"{site.url}/", names=names, delay_seconds=0)
    assert pages == [f"{site.url}/", f"{site.url}/new"]
    assert failures == {
        f"{site.url}/away": "OTHER_HOST",
        f"{site.url}/loop": "TOO_MANY_REDIRECTS",
        f"{site.url}/odd": "INVALID_REDIRECT",
    }
    assert "other.test" not in names.asked


async def test_pages_too_large_fail_packed_ones_by_what_they_unpack_to(site: Site, crawl: Crawl) -> None:
    packed = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    site.answers = {
        "/": page("/large", "/bomb"),
        "/large": Answer(b"x" * 200_000),
        "/bomb": Answer(gzip.compress(bytes(5_000_000)), headers=packed),
    }
    limits = CrawlLimits(max_page_bytes=100_000, page_seconds=10)
    pages, failures = await crawl(f"{site.url}/", limits=limits, delay_seconds=0)
    assert pages == [f"{site.url}/"]
    assert set(failures.values()) == {"PAGE_TOO_LARGE"}
    assert len(failures) == 2


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,gzip,gzip", "br", "deflate", "gzip, x-gzip"])
@pytest.mark.parametrize("path", ["/", "/robots.txt"])
async def test_what_is_packed_twice_stays_packed(site: Site, crawl: Crawl, encoding: str, path: str) -> None:
    packed = {"Content-Type": "text/html", "Content-Encoding": encoding}
    site.answers = {"/": page(), path: Answer(gzip.compress(gzip.compress(bytes(10**6))), headers=packed)}
    assert await crawl(f"{site.url}/") == ([], {f"{site.url}/": "INVALID_ENCODING"})


async def test_encodings_in_several_headers_count_together(site: Site, crawl: Crawl) -> None:
    twice = {"Content-Type": "text/html", "Content-Encoding": "gzip", "content-encoding": "gzip"}
    site.answers = {"/": Answer(gzip.compress(gzip.compress(b"<p>text")), headers=twice)}
    assert (await crawl(f"{site.url}/"))[1] == {f"{site.url}/": "INVALID_ENCODING"}


async def test_a_page_that_is_packed_once_is_unpacked(site: Site, sandbox: Sandbox) -> None:
    packed = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    site.answers = {"/": Answer(gzip.compress(b"<p>text"), headers=packed)}
    crawler = HttpCrawler(sandbox, LIMITS, resolve=Names(site_test=["127.0.0.1"]))
    [found, _] = [one async for one in crawler.crawl(web(f"{site.url}/"), private_addresses=True)]
    assert isinstance(found, Found)
    assert b"".join(found.load().content) == b"<p>text"


async def test_a_robots_txt_that_unpacks_to_too_much_is_not_read(site: Site, crawl: Crawl) -> None:
    packed = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    site.answers = {"/": page(), "/robots.txt": Answer(gzip.compress(bytes(50_000_000)), headers=packed)}
    assert await crawl(f"{site.url}/") == ([], {f"{site.url}/": "PAGE_TOO_LARGE"})
    assert site.paths == []


async def test_what_is_no_page_is_passed_over_and_documents_are_taken(site: Site, crawl: Crawl) -> None:
    site.answers = {
        "/": page("/logo.png", "/manual.pdf"),
        "/logo.png": Answer(b"\x89PNG", headers={"Content-Type": "image/png"}),
        "/manual.pdf": Answer(b"%PDF-1.4", headers={"Content-Type": "application/pdf"}),
    }
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0)
    assert pages == [f"{site.url}/", f"{site.url}/manual.pdf"]
    assert failures == {}


@pytest.mark.parametrize(
    ("start_url", "reason"),
    [
        ("ftp://site.test/", "INVALID_URL"),
        ("http://nowhere.test/", "SOURCE_UNREACHABLE"),
        ("http://site.test:1/", "SOURCE_UNREACHABLE"),
    ],
)
async def test_a_start_out_of_reach_fails_with_its_reason(crawl: Crawl, start_url: str, reason: str) -> None:
    assert await crawl(start_url) == ([], {start_url: reason})


# --- what pages say of themselves ---


@pytest.mark.parametrize(
    ("rule", "is_indexed", "is_followed"),
    [
        ("noindex", False, True),
        ("NoFollow, noarchive", True, False),
        ("none", False, False),
        ("groundline: noindex", False, True),
        ("otherbot: noindex, nofollow", True, True),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow", True, False),
        ("max-snippet:20", True, True),
    ],
)
@pytest.mark.parametrize("place", ["header", "meta"])
async def test_a_page_says_whether_it_is_indexed_and_followed(
    site: Site, crawl: Crawl, rule: str, is_indexed: bool, is_followed: bool, place: str
) -> None:
    if place == "header":
        first = page("/next")
        site.answers["/"] = Answer(first.body, headers=first.headers | {"X-Robots-Tag": rule})
    else:
        agent, _, rules = rule.rpartition(": ") if rule.startswith(("ground", "other")) else ("", "", rule)
        site.answers["/"] = page("/next", head=f"<META NAME='{agent or 'robots'}' CONTENT='{rules}'>")
    site.answers["/next"] = page()
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0)
    assert (f"{site.url}/" in pages) == is_indexed
    assert (f"{site.url}/next" in pages) == is_followed
    assert failures == ({} if is_indexed else {f"{site.url}/": "(not indexed)"})


async def test_a_page_comes_once_under_the_address_that_it_names_canonical(site: Site, crawl: Crawl) -> None:
    def copy(canonical: str) -> Answer:
        return page(head=f"<link rel='canonical' href='{canonical}'>")

    site.answers = {
        "/": page("/a?print=1", "/a?page=2", "/a", "/b", "/c", "/private/d"),
        "/a?print=1": copy("/a"),
        "/a?page=2": copy("/a"),
        "/a": page(),
        "/b": copy("http://other.test/b"),
        "/c": copy("/private/c"),
    }
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0, exclude_paths=["/private/**"])
    assert pages == [f"{site.url}{path}" for path in ("/", "/a", "/b", "/c")]
    assert failures == {}
    assert "/a" not in site.paths


async def test_an_address_that_there_is_not_is_not_canonical(site: Site, crawl: Crawl) -> None:
    site.answers = {"/": page("/gone", "/b"), "/b": page(head="<link rel='canonical' href='/gone'>")}
    pages, failures = await crawl(f"{site.url}/", delay_seconds=0)
    assert pages == [f"{site.url}/", f"{site.url}/b"]
    assert failures == {f"{site.url}/gone": "HTTP_STATUS"}
