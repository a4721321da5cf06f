"""The audit log as the contract has it."""

import re
from datetime import datetime
from typing import Final

from groundline.v1 import administration_service_pb2 as pb
from groundline.v1 import audit_entry_pb2
from groundline_contracts.times import timestamp
from groundline_runtime.errors import Violations
from groundline_runtime.paging import page_size

from groundline_gateway.administration.times import time_in
from groundline_gateway.auditing.entries import AuditEntry
from groundline_gateway.auditing.store import AuditQuery, AuditStore

_ENTRY_ID: Final = re.compile(r"[1-9][0-9]{0,17}")
_TEXTS: Final = (
    "client", "credential", "action", "resource", "grpc_status", "peer", "request_id", "trace_id", "created",
)  # fmt: skip


class AuditAdministration:
    """The audit log that the command reads. Every method raises UnavailableError when the database cannot be
    reached."""

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    async def list_entries(self, request: pb.ListAuditEntriesRequest) -> pb.ListAuditEntriesResponse:
        """Return a page of the entries. Raises InvalidArgumentError, which names every wrong field."""
        violations = Violations()
        if request.page_token and not _ENTRY_ID.fullmatch(request.page_token):
            violations.add("page_token", "is not a token that this list returned; begin again without one")
        wanted = AuditQuery(
            since=time_in(request, "since", violations),
            until=time_in(request, "until", violations),
            client=request.client or None,
            action=request.action or None,
            resource=request.resource or None,
        )
        violations.raise_if_any()
        before = int(request.page_token) if request.page_token else None
        found, last = await self._store.page(wanted, before, page_size(request))
        return pb.ListAuditEntriesResponse(
            entries=map(_message, found), next_page_token="" if last is None else str(last)
        )


def _message(entry: AuditEntry) -> audit_entry_pb2.AuditEntry:
    fields = entry.fields
    texts = {name: fields[name] for name in _TEXTS if name in fields}
    principals = fields.get("principals")
    return audit_entry_pb2.AuditEntry(
        entry_id=str(entry.entry_id),
        time=timestamp(datetime.fromisoformat(fields["time"])),
        principals=principals.split(",") if principals else (),
        status=fields.get("status", 0),
        is_dry_run="dry_run" in fields,
        hash=entry.hash.hex(),
        **texts,
    )
