"""Pages that the gateway serves itself: the console with the files that it loads, and the API's reference."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from groundline_gateway.envoy.nodes import EXTENSIONS, Node, override, resource, set_headers
from groundline_gateway.settings import ConsoleSignIn, GatewaySettings

_NOTHING_ELSE: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'"
)
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".md": "text/markdown"}


def fill_pages(routes: dict[str, Node], settings: GatewaySettings) -> None:
    """Fill the routes of pages, and of the document that one of them shows."""
    docs = resource("page/docs.html")
    _answer(routes["page"], _console(settings), _page_headers(_console_policy(settings.console_sign_in)))
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


def _console(settings: GatewaySettings) -> str:
    """Return the console's page, with what it has to know of the settings in an element of its head."""
    sign_in, trace_url = settings.console_sign_in, settings.console_trace_url
    known: Node = {}
    if sign_in is not None:
        known["signIn"] = {
            "issuer": sign_in.issuer,
            "clientId": sign_in.client_id,
            "scopes": sign_in.scopes,
            "origins": sign_in.origins,
        }
    if trace_url is not None:
        known["traceUrl"] = trace_url
    element = f'<meta name="groundline" content="{html.escape(json.dumps(known))}">\n</head>'
    page = resource("page/index.html")
    return page.replace("</head>", element, 1) if known else page


def _console_policy(sign_in: ConsoleSignIn | None) -> str:
    # Originals and pictures of pages are shown from memory, since to load them takes a key.
    issuer = sign_in.origins if sign_in else ()
    return (
        f"{' '.join((_NOTHING_ELSE, *issuer))}; script-src 'self'; style-src 'self'; img-src blob: data:; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


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
