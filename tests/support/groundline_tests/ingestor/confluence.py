"""A Confluence whose pages and restrictions a test sets: the addresses of its REST API that a source asks."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from groundline_tests.http_server import Answering, listening

PAGE_SIZE = 2
TOKEN = "hidden"


@dataclass(slots=True)
class ConfluencePage:
    """A page of the space DOC."""

    title: str
    text: str
    version: int = 1
    above: str = ""
    """Id of its parent."""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Who alone may view it."""


@contextmanager
def serving_confluence(pages: dict[str, ConfluencePage]) -> Iterator[str]:
    """Serve pages by id to whoever has the token; yield the URL."""

    class Handler(Answering, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self.say(401, {"message": "Unauthorized"})
            elif parts.path == "/wiki/rest/api/content/search":
                if 'space = "DOC"' not in query["cql"]:
                    self.say(400, {"message": "No space with this key"})
                else:
                    self.say(200, _found(pages, query))
            elif (found := re.fullmatch(r"/wiki/rest/api/content/(\d+)", parts.path)) and found[1] in pages:
                body = {"export_view": {"value": pages[found[1]].text, "representation": "export_view"}}
                self.say(200, {"id": found[1], "body": body})
            else:
                self.say(404, {"message": "No content"})

        def say(self, status: int, said: Any) -> None:
            self.answer(status, json.dumps(said).encode())

    with listening(Handler) as url:
        yield f"{url}/wiki"


def _found(pages: dict[str, ConfluencePage], query: dict[str, str]) -> Any:
    start = int(query.get("start", "0"))
    results = []
    for identifier in [*pages][start : start + PAGE_SIZE]:
        page, above = pages[identifier], []
        while (parent := pages[identifier].above) and (identifier := parent):
            above.append({"id": parent, **_restrictions(pages[parent], query["expand"], "ancestors.")})
        results.append(
            {
                "id": next(key for key, one in pages.items() if one is page),
                "type": "page",
                "title": page.title,
                "version": {"number": page.version},
                "ancestors": above[::-1],
                **_restrictions(page, query["expand"], ""),
            }
        )
    links = {}
    if start + PAGE_SIZE < len(pages):
        following = urlencode({**query, "start": start + PAGE_SIZE})
        links["next"] = f"http://elsewhere.test/rest/api/content/search?{following}"
    return {"results": results, "start": start, "size": len(results), "_links": links}


def _restrictions(page: ConfluencePage, expand: str, of: str) -> dict[str, Any]:
    if f"{of}restrictions.read.restrictions.user" not in expand.split(","):
        return {}
    allowed = {
        "user": {"results": [{"type": "known", "username": name} for name in page.users]},
        "group": {"results": [{"type": "group", "name": name} for name in page.groups]},
    }
    return {"restrictions": {"read": {"operation": "read", "restrictions": allowed}}}
