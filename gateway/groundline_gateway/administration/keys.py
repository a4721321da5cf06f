"""API keys as the contract has them: listing, creating and revoking them."""

import re
from datetime import UTC, datetime
from typing import Final

from groundline.v1 import administration_service_pb2 as pb
from groundline.v1 import api_key_pb2
from groundline_contracts.times import timestamp
from groundline_runtime.errors import NotFoundError, Violations
from groundline_runtime.paging import page_size

from groundline_gateway.administration.times import time_in
from groundline_gateway.keys import Key, KeyStore, expiry_problem, name_problem, principal_problem
from groundline_gateway.scopes import Scope

_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")


class KeyAdministration:
    """Keys in the table that the command manages. Every method raises UnavailableError when the database
    cannot be reached."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store

    async def list_keys(self, request: pb.ListApiKeysRequest) -> pb.ListApiKeysResponse:
        """Return a page of the keys. Raises InvalidArgumentError for a token that is not one."""
        violations = Violations()
        if request.page_token and not _KEY_ID.fullmatch(request.page_token):
            violations.add("page_token", "is not a token that this list returned; begin again without one")
        violations.raise_if_any()
        size = page_size(request)
        found = await self._store.page(request.page_token, size + 1)
        shown = found[:size]
        token = shown[-1].key_id if len(found) > size else ""
        return pb.ListApiKeysResponse(keys=map(_message, shown), next_page_token=token)

    async def create(self, request: pb.CreateApiKeyRequest) -> pb.CreateApiKeyResponse:
        """Create a key; the response has its text. Raises InvalidArgumentError, which names every wrong
        field."""
        expire_time = _checked(request)
        principals = tuple(dict.fromkeys(request.principals))
        scopes = [scope for scope in Scope if scope in request.scopes]
        key = await self._store.create(request.name, principals, scopes, expire_time)
        assert key.secret is not None, "a new key has its text"
        return pb.CreateApiKeyResponse(key=_message(key), secret=key.secret)

    async def revoke(self, request: pb.RevokeApiKeyRequest) -> pb.RevokeApiKeyResponse:
        """Revoke a key. Raises NotFoundError (KEY_NOT_FOUND)."""
        key = await self._store.revoke_one(request.key_id)
        if key is None:
            raise NotFoundError("KEY_NOT_FOUND", f"there is no key {request.key_id!r}")
        return pb.RevokeApiKeyResponse(key=_message(key))


def _checked(request: pb.CreateApiKeyRequest) -> datetime | None:
    """Return the time at which a new key expires. Raises InvalidArgumentError for a wrong field."""
    violations = Violations()
    if problem := name_problem(request.name):
        violations.add("name", f"must have {problem}")
    for position, principal in enumerate(request.principals):
        if problem := principal_problem(principal):
            violations.add(f"principals[{position}]", f"must have {problem}")
    expire_time = time_in(request, "expire_time", violations)
    if expire_time is not None and (problem := expiry_problem(expire_time, datetime.now(UTC))):
        violations.add("expire_time", problem)
    violations.raise_if_any()
    return expire_time


def _message(key: Key) -> api_key_pb2.ApiKey:
    state = key.state(datetime.now(UTC)).upper()
    return api_key_pb2.ApiKey(
        key_id=key.key_id,
        name=key.name,
        principals=key.principals,
        scopes=key.scopes,
        state=api_key_pb2.ApiKeyState.Value(f"API_KEY_STATE_{state}"),
        create_time=timestamp(key.create_time),
        expire_time=timestamp(key.expire_time),
        revoke_time=timestamp(key.revoke_time),
        last_use_time=timestamp(key.last_use_time),
    )
