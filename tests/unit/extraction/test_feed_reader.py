"""Contents of feeds, as the connector gets them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from groundline_extraction.readers.common import NO_HINTS, Hints, ReaderLimits, ReadError
from groundline_extraction.readers.web import feed


def entries(content: str | bytes, hints: Hints = NO_HINTS) -> list[dict[str, Any]]:
    data = content.encode() if isinstance(content, str) else content
    found: list[dict[str, Any]] = json.loads(feed.read(data, hints, ReaderLimits()).text)
    return found


def atom(entry: str, head: str = "") -> str:
    return f'{head}<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry>{entry}</entry></feed>'


@pytest.mark.parametrize("content", ["", "Dear all", "<html><body>News</body></html>", "{}", "<rss", "\x00"])
def test_what_is_no_feed_is_refused(content: str) -> None:
    with pytest.raises(ReadError) as raised:
        entries(content)
    assert raised.value.reason == "CORRUPT_DOCUMENT"


def test_a_feed_with_too_many_entries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_ENTRIES", 1)
    items = "<item><title>Leave</title></item>" * 2
    with pytest.raises(ReadError) as raised:
        entries(f'<rss version="2.0"><channel>{items}</channel></rss>')
    assert raised.value.reason == "DOCUMENT_TOO_LARGE"


def test_an_entity_stands_for_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    head = f'<!DOCTYPE feed [<!ENTITY a SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    [entry] = entries(atom("<title>Leave</title><content>Days: &a;</content>", head))
    assert entry["title"] == "Leave"
    assert "secret" not in entry["html"]


def test_entities_of_entities_do_not_become_endless() -> None:
    names = "abcdefghij"
    nested = [f'<!ENTITY {one} "{f"&{other};" * 10}">' for other, one in pairwise(names)]
    head = f'<!DOCTYPE feed [<!ENTITY a "endless">{"".join(nested)}]>'
    found = entries(atom("<title>Leave</title><content>Days: &j;</content>", head))
    assert len(json.dumps(found)) < 1_000_000


def test_an_entry_of_an_atom_feed_is_read() -> None:
    [entry] = entries(
        atom(
            """
            <id>urn:uuid:1</id><title type="html">Leave &amp;amp; pay</title>
            <link rel="self" href="/feed/1"/><link href="/leave"/>
            <author><name>Ann</name></author><category term="people"/><category term="pay" label="Pay"/>
            <published>2026-11-02T10:00:00+01:00</published><updated>2026-11-03T10:00:00Z</updated>
            <summary>In short.</summary>
            <content type="xhtml">
              <div xmlns="http://www.w3.org/1999/xhtml"><p>Thirty days.</p></div>
            </content>
            """
        )
    )
    assert "<p>Thirty days.</p>" in entry.pop("html")
    assert entry == {
        "id": "urn:uuid:1",
        "link": "/leave",
        "title": "Leave & pay",
        "metadata": {
            "author": "Ann",
            "published": "2026-11-02T09:00:00Z",
            "updated": "2026-11-03T10:00:00Z",
            "categories": ["people", "pay"],
        },
    }


def test_plain_text_is_no_markup() -> None:
    [entry] = entries(atom('<content type="text">if a &lt; b:\n    stop</content>'))
    assert entry["html"] == "<pre>if a &lt; b:\n    stop</pre>"


def test_the_charset_that_the_server_names_is_that_of_the_feed() -> None:
    content = '<rss version="2.0"><channel><item><title>Änderung</title></item></channel></rss>'
    [entry] = entries(content.encode("latin-1"), Hints("application/rss+xml; charset=iso-8859-1"))
    assert entry["title"] == "Änderung"


def test_what_an_entry_does_not_say_is_empty() -> None:
    [entry] = entries('<rss version="2.0"><channel><item><guid>1</guid></item></channel></rss>')
    assert (entry["title"], entry["html"], entry["metadata"]) == ("", "", {})
