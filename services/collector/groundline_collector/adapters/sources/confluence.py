"""Pages of spaces of a Confluence, Data Center or Cloud, with who may read them where it is restricted."""

import json
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import urllib3
from pydantic import AfterValidator, Field
from urllib3.exceptions import HTTPError

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    TRANSIENT_STATUSES,
    FolderAddress,
    PluginSettings,
    Run,
    SourceKind,
    failure_of,
    host_of,
    refused,
    unreachable,
)
from groundline_collector.changes import (
    MAX_PRINCIPALS,
    Change,
    Found,
    LoadedDocument,
    is_principal,
    not_had,
    reached,
)

MAX_PAGES: Final = 200_000
_PAGE_SIZE: Final = 50
_OK: Final = 200
_RESTRICTIONS: Final = tuple(f"restrictions.read.restrictions.{kind}" for kind in ("user", "group"))

_Space = Annotated[str, Field(pattern=r"^[A-Za-z0-9~_.-]{1,255}$")]
"""Key of a space; nothing in it ends a text of CQL."""


class ConfluenceSettings(PluginSettings):
    """Settings of a source of the kind confluence."""

    url: FolderAddress
    """Where Confluence begins, such as https://wiki.example/ or https://example.atlassian.net/wiki/."""
    spaces: Annotated[list[_Space], Field(min_length=1, max_length=100)]
    """Keys of the spaces."""
    token_secret: Annotated[str, AfterValidator(str.strip), Field(min_length=1)]
    """Secret that holds a personal access token of Data Center, or an API token of Cloud."""
    username: str = ""
    """Mail address of the API token's owner, in Cloud. Empty: the token is a personal access token."""
    restrictions: bool = True
    """Whether restrictions on viewing a page restrict who may read its document."""


def changes(run: Run) -> Generator[Change]:
    """Yield all pages; a page's version is its number. Blocks.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError (SOURCE_REFUSED,
    ADDRESS_NOT_ALLOWED): pages of a space that is not shown may be there still.
    """
    asked: ConfluenceSettings = run.asked
    server = _Server(run)
    try:
        seen = set[str]()
        for space in asked.spaces:
            for page in server.pages(space):
                identifier, title = _text(page, "id"), _text(page, "title")
                if identifier in seen or not run.takes(f"{space}/{title}"):
                    continue
                seen.add(identifier)
                if len(seen) > MAX_PAGES:
                    raise refused(f"there are more than {MAX_PAGES} pages")
                uri = run.uri_prefix + identifier
                yield Found(
                    uri,
                    str(page["version"]["number"]),
                    partial(server.load, identifier, uri, title, space),
                    allowed_principals=readers_of(page) if asked.restrictions else None,
                )
        yield reached("", is_complete=True)
    except (HTTPError, AddressNotAllowedError) as error:
        raise failure_of(error, server.host) from None
    except (KeyError, TypeError, ValueError):
        raise refused(f"{server.host} does not answer as Confluence") from None
    finally:
        server.pool.clear()


def readers_of(page: Any) -> Sequence[str] | None:
    """Return the principals that may view a page: those whom it and every page above it let. None: no page is
    restricted.

    Who cannot be named as a principal is left out, so that fewer may read than at the server, never more.
    Raises KeyError, TypeError if it is not said who may view one of the pages.
    """
    readers: set[str] | None = None
    for one in (page, *page["ancestors"]):
        allowed = one["restrictions"]["read"]["restrictions"]
        users, groups = allowed["user"]["results"], allowed["group"]["results"]
        if not users and not groups:
            continue
        names = {f"user:{name}" for user in users if (name := _name_of(user))}
        names |= {f"group:{group['name']}" for group in groups}
        readers = names if readers is None else readers & names
    if readers is None:
        return None
    return sorted(one for one in readers if is_principal(one))[:MAX_PRINCIPALS]


def _name_of(user: Any) -> str:
    """Return a user's name: in Data Center its own, in Cloud the mail address if it is shown, else the id."""
    return str(user.get("username") or user.get("email") or user.get("accountId") or "")


class _Server:
    """A Confluence, through its REST API of version 1, which both Data Center and Cloud answer."""

    def __init__(self, run: Run) -> None:
        asked: ConfluenceSettings = run.asked
        self.pool = run.pool()
        self.host = host_of(asked.url)
        self._url = asked.url
        self._expanded = ["version", "ancestors"]
        if asked.restrictions:
            self._expanded += [f"{of}{one}" for of in ("", "ancestors.") for one in _RESTRICTIONS]
        self._max_bytes = run.start.max_document_bytes
        self._headers = {"User-Agent": run.settings.user_agent, "Accept": "application/json"}
        token = run.secret(asked.token_secret) or ""
        if asked.username:
            self._headers |= urllib3.util.make_headers(basic_auth=f"{asked.username}:{token}")
        else:
            self._headers["Authorization"] = f"Bearer {token}"

    def pages(self, space: str) -> Iterator[Any]:
        """Yield the current pages of a space, without their text."""
        query = {
            "cql": f'space = "{space}" and type = page order by created',
            "expand": ",".join(self._expanded),
            "limit": str(_PAGE_SIZE),
        }
        asked_before = set[str]()
        while query:
            answer = self._asked("rest/api/content/search", query)
            yield from answer["results"]
            # Only the query of the next page's address is taken, so that it leads to no other server.
            following = urlsplit(answer.get("_links", {}).get("next", "")).query
            if following in asked_before:
                raise refused(f"{self.host} shows the same pages of {space} again")
            asked_before.add(following)
            query = {name: values[-1] for name, values in parse_qs(following).items()}

    def load(self, identifier: str, uri: str, title: str, space: str) -> LoadedDocument:
        """Return a page as HTML, its macros resolved."""
        try:
            page = self._asked(f"rest/api/content/{identifier}", {"expand": "body.export_view"})
            content = str(page["body"]["export_view"]["value"]).encode("utf-8", "replace")
        except (HTTPError, AddressNotAllowedError) as error:
            raise failure_of(error, self.host) from None
        except (KeyError, TypeError, ValueError):
            raise not_had("SOURCE_REFUSED", f"{self.host} does not show the page") from None
        if len(content) > self._max_bytes:
            raise not_had("DOCUMENT_TOO_LARGE", f"more than {self._max_bytes} bytes")
        return LoadedDocument(
            uri,
            (b'<meta charset="utf-8">', content),
            title=title[:500],
            mime_type="text/html",
            metadata={"space": space},
        )

    def _asked(self, path: str, query: dict[str, str]) -> Any:
        address = f"{self._url}{path}?{urlencode(query)}"
        response = self.pool.request("GET", address, headers=self._headers, redirect=False)
        if response.status in TRANSIENT_STATUSES:
            raise unreachable(self.host)
        if response.status != _OK:
            raise refused(f"{self.host} answered {response.status}")
        return json.loads(response.data)


def _text(page: Any, name: str) -> str:
    value = page[name]
    if not isinstance(value, str) or (name == "id" and not value.isalnum()):
        raise ValueError(name)
    return value


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION,
    changes=changes,
    settings=ConfluenceSettings,
    secret_host=lambda asked: host_of(asked.url),
)
