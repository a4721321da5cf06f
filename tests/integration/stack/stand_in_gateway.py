"""A process that answers GET with 200 on a port shared by SO_REUSEPORT, as Envoy does: `… PORT`."""

import http.server
import socket
import sys


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
