"""Pages that the gateway serves itself: the console with the files that it loads, and the API's reference."""

import base64
import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from groundline_gateway.envoy.nodes import EXTENSIONS, Node, override, resource, set_headers

_NOTHING_ELSE: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'"
)
# Originals and pictures of pages are shown from memory, since to load them takes a key.
_CONSOLE_POLICY: Final = (
    f"{_NOTHING_ELSE}; script-src 'self'; style-src 'self'; img-src blob: data:; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".md": "text/markdown"}


def fill_pages(routes: dict[str, Node]) -> None:
    """Fill the routes of pages, and of the document that one of them shows."""
    console, docs = resource("page/index.html"), resource("page/docs.html")
    _answer(routes["page"], console, _page_headers(_CONSOLE_POLICY))
    _answer(routes["docs"], docs, _page_headers(_policy_by_hash(docs)))
    _answer(routes["openapi"], resource("page/openapi.json"), {"content-type": "application/json"})


def console_routes() -> Iterator[Node]:
    """Yield a route for each file that the console loads; `make console` puts them there."""
    for file in sorted(
        files("groundline_gateway").joinpath("page/console").iterdir(), key=lambda one: one.name
    ):
        verbs = {"name": ":method", "string_match": {"safe_regex": {"regex": "GET|HEAD"}}}
        route: Node = {
            "name": f"console/{file.name}",
            "match": {"path": f"/console/{file.name}", "headers": [verbs]},
            "direct_response": {"status": 200, "body": {}},
        }
        kind = _TYPES[PurePath(file.name).suffix]
        _answer(route, file.read_text(encoding="utf-8"), {"content-type": f"{kind}; charset=utf-8"})
        # Other content has another name. Set where the gateway's no-store is, which comes last.
        if re.search(r"-[\w-]{8}\.", file.name):
            kept = {"key": "cache-control", "value": "public, max-age=31536000, immutable"}
            mutation = {"append": {"header": kept, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
            override(
                route,
                "header_mutation",
                {
                    "@type": f"{EXTENSIONS}.filters.http.header_mutation.v3.HeaderMutationPerRoute",
                    "mutations": {"response_mutations": [mutation]},
                },
            )
        yield route


def _answer(route: Node, body: str, headers: dict[str, str]) -> None:
    route["direct_response"]["body"] = {"inline_string": body}
    route["response_headers_to_add"] = set_headers(headers)


def _page_headers(policy: str) -> dict[str, str]:
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }


def _policy_by_hash(page: str) -> str:
    """Return the policy of a page that is one file: its own script and style run, and no other."""

    def hashes(tag: str) -> str:
        blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = (hashlib.sha256(block.encode()).digest() for block in blocks)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    return f"{_NOTHING_ELSE}; script-src {hashes('script')}; style-src {hashes('style')}; img-src data:"
