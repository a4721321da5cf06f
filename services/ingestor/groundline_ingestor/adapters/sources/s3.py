"""Objects of a bucket behind the API of Amazon S3."""

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import urllib3
from groundline.v1 import source_pb2
from groundline_runtime.errors import FailedPreconditionError
from minio import Minio
from minio.datatypes import Object
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from groundline_ingestor.adapters.addresses import AddressNotAllowedError
from groundline_ingestor.adapters.sources.common import content_of, not_had, refused, unreachable
from groundline_ingestor.domain.documents import GivenDocument
from groundline_ingestor.domain.sources import Change, Found, Reached, Unreadable, takes_path, uri_prefix

__all__ = ["s3_changes"]

DEFAULT_REGION: Final = "us-east-1"
_PART: Final = 1 << 20
_SAYS_NOTHING: Final = ("application/octet-stream", "binary/octet-stream")


def s3_changes(
    source: source_pb2.DocumentSource,
    pool: urllib3.PoolManager,
    *,
    access_key: str | None,
    secret_key: str | None,
    max_bytes: int,
    spool: Path | None,
) -> Generator[Change]:
    """All objects; an object's version is its ETag. Blocks.

    The pool is closed at the end. Raises UnavailableError (SOURCE_UNREACHABLE), FailedPreconditionError
    (SOURCE_REFUSED, ADDRESS_NOT_ALLOWED).
    """
    s3, prefix = source.s3, uri_prefix(source)
    endpoint = urlsplit(s3.endpoint_url)
    try:
        client = Minio(
            endpoint.netloc,
            access_key=access_key,
            secret_key=secret_key,
            secure=endpoint.scheme == "https",
            region=s3.region or DEFAULT_REGION,
            http_client=pool,
        )
        for one in client.list_objects(s3.bucket, prefix=s3.prefix, recursive=True):
            key = one.object_name or ""
            path = key.removeprefix(s3.prefix)
            if one.is_dir or key.endswith("/") or not takes_path(source, path):
                continue
            if (one.size or 0) > max_bytes:
                yield Unreadable(prefix + path, "DOCUMENT_TOO_LARGE", f"more than {max_bytes} bytes")
                continue
            load = partial(_load, client, one, prefix + path, max_bytes=max_bytes, spool=spool)
            yield Found(prefix + path, one.etag or "", load)
        yield Reached("", is_complete=True)
    except ValueError:
        raise refused("the endpoint or the bucket's name is not valid") from None
    except (S3Error, InvalidResponseError, ServerError, HTTPError, AddressNotAllowedError) as error:
        raise _failure(error, endpoint.hostname or "") from None
    finally:
        pool.clear()


def _load(client: Minio, one: Object, uri: str, *, max_bytes: int, spool: Path | None) -> GivenDocument:
    try:
        response = client.get_object(one.bucket_name, one.object_name or "")
        try:
            content = content_of(_parts(response), max_bytes=max_bytes, directory=spool)
        finally:
            response.close()
            response.release_conn()
    except S3Error as error:
        raise not_had("SOURCE_REFUSED", f"the storage answered {error.code}") from None
    except (InvalidResponseError, ServerError, HTTPError) as error:
        raise _failure(error, "the storage") from None
    mime_type = (response.headers.get("content-type") or "").split(";", 1)[0].strip().lower()
    return GivenDocument(
        content=content, uri=uri, mime_type="" if mime_type in _SAYS_NOTHING else mime_type[:200]
    )


def _parts(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    return response.stream(_PART, decode_content=False)


def _failure(error: Exception, host: str) -> Exception:
    if isinstance(error, AddressNotAllowedError):
        return FailedPreconditionError("ADDRESS_NOT_ALLOWED", str(error))
    if isinstance(error, S3Error):
        return refused(f"{host} answered {error.code}")
    return unreachable(host)
