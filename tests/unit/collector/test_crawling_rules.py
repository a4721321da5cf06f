"""Which addresses, links and paths a crawl takes."""

import time

import pytest
from groundline.v1 import source_pb2
from groundline_collector.adapters.addresses import is_public
from groundline_collector.pages import path_matches, takes
from groundline_validation import page_address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::808:808",
        "168.63.129.16",
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        "5f00::1",
        "::7f00:1",
        "::8.8.8.8",
        "::ffff:8.8.8.8",
        "4000::1",
        "2002:a83f:8110::",
    ],
)
def test_addresses_that_are_not_the_internets_are_told(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "168.63.129.17", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]
)
def test_addresses_of_the_internet_are_told(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "link",
    [
        "mailto:a@example.org",
        "javascript:void(0)",
        "file:///etc/passwd",
        "ftp://example.org/x",
        "data:text/html,x",
        "http://user:password@example.org/",
        "http://user@example.org/",
        "http://[::1",
        "http://example.org:99999/",
        "http://" + "a" * 70 + ".org/",
        "/" + "a" * 2000,
    ],
)
def test_what_is_no_web_page_is_no_target(link: str) -> None:
    assert page_address(link, "http://example.org/") is None


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("b?x=1#top", "http://example.org/docs/b?x=1"),
        ("../c", "http://example.org/c"),
        ("//Other.ORG", "http://other.org/"),
        ("HTTPS://example.org:443/x", "https://example.org/x"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/ä"),
        ("http://[2001:db8::1]:80/", "http://[2001:db8::1]/"),
        (" a ", "http://example.org/docs/a"),
    ],
)
def test_one_page_has_one_spelling(link: str, target: str) -> None:
    assert page_address(link, "http://example.org/docs/") == target


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/docs/*", "/docs/a", True),
        ("/docs/*", "/docs/", True),
        ("/docs/*", "/docs/a/b", False),
        ("/docs/**", "/docs/a/b", True),
        ("/docs/**", "/docs", False),
        ("/docs", "/docs", True),
        ("/docs", "/docs/", False),
        ("**/print", "/a/b/print", True),
        ("**.html", "/a/b.html", True),
        ("/*/x*y/**", "/a/x--y/b/c", True),
        ("/*/x*y/**", "/a/x/y/b", False),
        ("/a.c", "/abc", False),
        ("**", "/", True),
        ("", "/", False),
    ],
)
def test_patterns_describe_whole_paths(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(pattern, path) is matches


def test_no_pattern_takes_exponential_time() -> None:
    begun = time.process_time()
    assert not path_matches("/" + "**a" * 60, "/" + "a" * 1900 + "b")
    assert time.process_time() - begun < 30, "backtracking would take longer than the universe has been there"


def test_excluded_paths_win_over_included_ones() -> None:
    request = source_pb2.DocumentSource(include_paths=("/docs/**",), exclude_paths=("**/old/**",))
    assert takes(request, "/docs/a")
    assert not takes(request, "/docs/old/a")
    assert not takes(request, "/blog/a")
    assert takes(source_pb2.DocumentSource(), "/anything")


@pytest.mark.parametrize("link", ["/" + "ä" * 1001, "/a\ud800", "/a\x00b"])
def test_what_cannot_be_stored_as_a_uri_is_no_page(link: str) -> None:
    assert page_address(link, "http://example.org/") is None
