"""An interpreter of the viewer's environment that serves what MLflow would: `… -m uvicorn … --port P …`.

It refuses to start while there is a file `broken` beside its data, and notes there what is posted.
"""

import http.server
import os
import sys
from pathlib import Path

DATA = Path(os.environ["HOME"])


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with (DATA / "posted").open("ab") as file:
            file.write(self.path.encode() + b" " + body + b"\n")
        self.answer()

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


if (DATA / "broken").exists():
    sys.exit("this database is of another version")
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
