"""Texts that a JSON listing names: [{"path": …, "url": …, "version": …, "readers": [principals]}]."""

import json
from collections.abc import Generator
from functools import partial
from typing import Final
from urllib.parse import urljoin

import urllib3
from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.sources.common import (
    PluginSettings,
    Run,
    SourceKind,
    failure_of,
    host_of,
    refused,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached
from urllib3.exceptions import HTTPError

__all__ = ["KIND"]

_OK: Final = 200


class ListingSettings(PluginSettings):
    """Settings of a source of this kind; any other is refused by name."""

    url: str
    """The listing."""
    token_secret: str = ""
    """Secret that holds a token. Empty: none is sent."""


def changes(run: Run) -> Generator[Change]:
    """Yield all texts. Blocks."""
    asked: ListingSettings = run.asked
    pool, host = run.pool(), host_of(asked.url)
    token = run.secret(asked.token_secret)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        response = pool.request("GET", asked.url, headers=headers)
        if response.status != _OK:
            raise refused(f"{host} answered {response.status}")
        for one in json.loads(response.data):
            if run.takes(one["path"]):
                uri = run.uri_prefix + one["path"]
                load = partial(_load, pool, urljoin(asked.url, one["url"]), uri)
                yield Found(uri, one["version"], load, allowed_principals=one.get("readers"))
        yield reached("", is_complete=True)
    except (HTTPError, AddressNotAllowedError) as error:
        raise failure_of(error, host) from None
    except (ValueError, KeyError, TypeError):
        raise refused(f"{host} serves no listing") from None
    finally:
        pool.clear()


def _load(pool: urllib3.PoolManager, url: str, uri: str) -> LoadedDocument:
    """Return a text. A token never leaves for where a listing points."""
    try:
        response = pool.request("GET", url)
    except (HTTPError, AddressNotAllowedError) as error:
        raise failure_of(error, host_of(url)) from None
    if response.status != _OK:
        raise not_had("SOURCE_REFUSED", f"the server answered {response.status}")
    return LoadedDocument(uri, (response.data,), mime_type="text/plain")


KIND: Final = SourceKind(
    interface_version=1,
    changes=changes,
    settings=ListingSettings,
    secret_host=lambda asked: host_of(asked.url),
)
