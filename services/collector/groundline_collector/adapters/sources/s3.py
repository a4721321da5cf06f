"""Objects of a bucket behind the API of Amazon S3."""

import xml.etree.ElementTree as ET
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import urllib3
from groundline.v1 import source_pb2
from groundline_contracts import default_of
from minio import Minio
from minio.datatypes import Object
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from groundline_collector.adapters.addresses import AddressNotAllowedError
from groundline_collector.adapters.pool import AnswerTooLargeError
from groundline_collector.adapters.sources.common import (
    INTERFACE_VERSION,
    Run,
    SourceKind,
    host_of,
    not_allowed,
    refused,
    unreachable,
)
from groundline_collector.changes import Change, Found, LoadedDocument, not_had, reached, unreadable

_REGION: Final[str] = default_of(source_pb2.S3Source, "region")
_PART: Final = 1 << 20
_SAYS_NOTHING: Final = ("application/octet-stream", "binary/octet-stream")


def changes(run: Run) -> Generator[Change]:
    """Yield all objects; an object's version is its ETag. Blocks.

    Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError
    (SOURCE_REFUSED, ADDRESS_NOT_ALLOWED).
    """
    s3, max_bytes, pool = run.source.s3, run.start.max_document_bytes, run.pool()
    endpoint = urlsplit(s3.endpoint_url)
    try:
        client = Minio(
            endpoint.netloc,
            access_key=run.secret(s3.access_key_secret),
            secret_key=run.secret(s3.secret_key_secret),
            secure=endpoint.scheme == "https",
            region=s3.region or _REGION,
            http_client=pool,
        )
        for one in client.list_objects(s3.bucket, prefix=s3.prefix, recursive=True):
            key = one.object_name or ""
            path = key.removeprefix(s3.prefix)
            if one.is_dir or key.endswith("/") or not run.takes(path):
                continue
            uri = run.uri_prefix + path
            if (one.size or 0) > max_bytes:
                yield unreadable(uri, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                continue
            yield Found(uri, one.etag or "", partial(_load, client, one, uri))
        yield reached("", is_complete=True)
    except (ET.ParseError, UnicodeDecodeError):
        raise refused(f"{endpoint.hostname} does not answer as a storage") from None
    except ValueError:
        raise refused("the endpoint or the bucket's name is not valid, or an answer lacks a value") from None
    except (S3Error, InvalidResponseError, ServerError, HTTPError, AddressNotAllowedError) as error:
        raise _failure(error, endpoint.hostname or "") from None
    finally:
        pool.clear()


def _load(client: Minio, one: Object, uri: str) -> LoadedDocument:
    with _failures_named():
        response = client.get_object(one.bucket_name, one.object_name or "")
    mime_type = (response.headers.get("content-type") or "").split(";", 1)[0].strip().lower()
    mime_type = "" if mime_type in _SAYS_NOTHING else mime_type[:200]
    return LoadedDocument(uri, _pieces(response), mime_type=mime_type)


def _pieces(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    try:
        with _failures_named():
            yield from response.stream(_PART, decode_content=False)
    finally:
        response.close()
        response.release_conn()


@contextmanager
def _failures_named() -> Iterator[None]:
    """Raise what Sources raise, or IngestionError where this object alone is refused."""
    try:
        yield
    except S3Error as error:
        raise not_had("SOURCE_REFUSED", f"the storage answered {error.code}") from None
    except (AnswerTooLargeError, ET.ParseError, ValueError):
        raise not_had("SOURCE_REFUSED", "the storage does not answer as one") from None
    except (InvalidResponseError, ServerError, HTTPError, AddressNotAllowedError) as error:
        raise _failure(error, "the storage") from None


def _failure(error: Exception, host: str) -> Exception:
    if isinstance(error, AddressNotAllowedError):
        return not_allowed(error)
    if isinstance(error, AnswerTooLargeError):
        return refused(f"{host}: {error}")
    if isinstance(error, S3Error):
        return refused(f"{host} answered {error.code}")
    return unreachable(host)


KIND: Final = SourceKind(
    interface_version=INTERFACE_VERSION, changes=changes, secret_host=lambda s3: host_of(s3.endpoint_url)
)
