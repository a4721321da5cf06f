"""A WebDAV server whose files and access control lists a test sets."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote, unquote

from groundline_tests.http_server import NO_HEADERS, Answering, listening

GRANT, DENY = (f"<{one}><privilege><read/></privilege></{one}>" for one in ("grant", "deny"))


class WebdavServer:
    """A WebDAV server: files by path, and an access control list of each that has one."""

    def __init__(self) -> None:
        self.files = {
            "/dav/handbook/plan.txt": (
                b"First things first.",
                "<grant><privilege><read/></privilege></grant>",
            ),
            "/dav/handbook/2026/über uns.txt": (b"We make pumps.", ""),
        }
        self.loaded: list[str] = []

    def acl(self, grant: str) -> str:
        who = "<principal><href>/principals/groups/staff/</href></principal>"
        return f"<acl><ace>{who}{grant}</ace></acl>" if grant else ""

    def listing(self, folder: str) -> str:
        folders = {folder} | {
            folder + path.removeprefix(folder).split("/")[0] + "/"
            for path in self.files
            if path.startswith(folder) and "/" in path.removeprefix(folder)
        }
        shown = [(one, "<resourcetype><collection/></resourcetype>") for one in sorted(folders)]
        for path, (content, grant) in self.files.items():
            if path.rpartition("/")[0] + "/" == folder:
                size = f"<getcontentlength>{len(content)}</getcontentlength>"
                shown.append(
                    (path, f'<resourcetype/><getetag>"{hash(content)}"</getetag>{size}{self.acl(grant)}')
                )
        responses = "".join(
            f"<response><href>{quote(path)}</href><propstat><prop>{values}</prop>"
            "<status>HTTP/1.1 200 OK</status></propstat><propstat><prop><displayname/></prop>"
            "<status>HTTP/1.1 404 Not Found</status></propstat></response>"
            for path, values in shown
        )
        return f'<?xml version="1.0"?><multistatus xmlns="DAV:">{responses}</multistatus>'


@contextmanager
def serving_webdav(dav: WebdavServer) -> Iterator[str]:
    """Serve it to ann, whose password is "hidden"; yield the URL of its folder."""

    class Handler(Answering, BaseHTTPRequestHandler):
        def do_PROPFIND(self) -> None:
            assert self.headers["Depth"] == "1"
            self.given()
            self.answer(207, dav.listing(unquote(self.path)).encode())

        def do_GET(self) -> None:
            path = unquote(self.path)
            dav.loaded.append(path)
            self.answer(200, dav.files[path][0])

        def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> None:
            if self.headers["Authorization"] != "Basic YW5uOmhpZGRlbg==":
                status, body = 401, b""
            super().answer(status, body, headers)

    with listening(Handler) as url:
        yield f"{url}/dav/handbook"
