"""The kind against a local server, by the contract of all kinds."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from groundline_collector.adapters.sources.contract import check_kind

LISTING = [
    {"path": "a.txt", "url": "/texts/1", "version": "1", "readers": ["group:staff"]},
    {"path": "b.txt", "url": "/texts/2", "version": "1"},
]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_listing = self.path == "/listing.json"
        is_allowed = not is_listing or self.headers["Authorization"] == "Bearer hidden"
        body = json.dumps(LISTING).encode() if is_listing else f"text of {self.path}".encode()
        self.send_response(200 if is_allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


async def test_the_kind_holds_the_contract() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"url": f"http://127.0.0.1:{server.server_port}/listing.json", "token_secret": "token"}
        found = await check_kind("listing", settings, secrets={"token": "hidden"})
        server.shutdown()
    assert {uri: content for uri, (_, content) in found.items()} == {
        "contract/a.txt": b"text of /texts/1",
        "contract/b.txt": b"text of /texts/2",
    }
    assert found["contract/a.txt"][0].allowed_principals == ["group:staff"]
