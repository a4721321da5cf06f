"""The contract of a kind of source, which the tests of any plug-in run."""

import tempfile
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from groundline.v1 import collector_service_pb2 as pb
from groundline.v1 import source_pb2
from groundline_extraction.readers.common import ReaderLimits
from groundline_extraction.sandbox import Sandbox
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, InvalidArgumentError

from groundline_collector.adapters.registry import SourceRegistry, kind_of, secrets_of
from groundline_collector.adapters.secrets import Secrets
from groundline_collector.adapters.threads import OwnThread
from groundline_collector.changes import Found
from groundline_collector.settings import CollectorSettings

_COLLECTION: Final = "contract"
_MAX_BYTES: Final = 32 * 1024**2


async def check_kind(
    kind: str, settings: Mapping[str, Any], *, secrets: Mapping[str, str] | None = None
) -> dict[str, tuple[Found, bytes]]:
    """Run a kind as the collector does, against a server on this machine that its settings name; return the
    documents with their content, by uri.

    Raises AssertionError saying what of the contract does not hold: wrong settings are refused by name;
    secrets are bound to a host; a run reads through Run.pool alone, ends when it is cancelled, and reaches
    its end with documents of distinct uris below the source's prefix, whose versions stay as they do.
    """
    with tempfile.TemporaryDirectory() as folder, Sandbox(ReaderLimits()) as sandbox:
        own = _store(Path(folder), secrets or {})
        chosen = CollectorSettings(private_addresses=True, secrets_directory=Path(folder))
        registry = SourceRegistry(chosen, Secrets(chosen.secrets_directory), sandbox)
        source = source_pb2.DocumentSource(
            name="contract", collection_id=_COLLECTION, plugin=source_pb2.PluginSource(kind=kind)
        )
        ParseDict(dict(settings), source.plugin.settings)
        registry.require_available(source)
        _require_settings_checked(source)
        _require_secrets_bound(registry, source, own)
        await _require_bounded(registry, source)
        first, second = await _read(registry, source), await _read(registry, source)
        versions = {uri: found.stated_version for uri, (found, _) in first.items()}
        assert versions == {uri: found.stated_version for uri, (found, _) in second.items()}, (
            "versions differ between two runs, although the documents do not"
        )
        return first


def _store(folder: Path, secrets: Mapping[str, str]) -> Path:
    own = folder / _COLLECTION
    own.mkdir()
    for name, secret in secrets.items():
        (own / name).write_text(secret)
    return own


def _require_settings_checked(source: source_pb2.DocumentSource) -> None:
    wrong = source_pb2.DocumentSource()
    wrong.CopyFrom(source)
    wrong.plugin.settings["no_such_setting"] = True
    try:
        kind_of(wrong)
    except InvalidArgumentError as error:
        named = [one.field for one in error.violations]
        assert "source.plugin.settings.no_such_setting" in named, f"it names {named}"
    else:
        raise AssertionError("an unknown setting is not refused")


def _require_secrets_bound(registry: SourceRegistry, source: source_pb2.DocumentSource, own: Path) -> None:
    for name in secrets_of(kind_of(source)[1]):
        hosts = own / f"{name}.hosts"
        hosts.write_text("elsewhere.invalid\n")
        try:
            registry.require_available(source)
        except FailedPreconditionError:
            hosts.unlink()
        else:
            raise AssertionError(f"the secret {name!r} is bound to no host: see SourceKind.secret_host")


async def _require_bounded(registry: SourceRegistry, source: source_pb2.DocumentSource) -> None:
    """Raise AssertionError if a run reads what is private though nobody allows it, or goes on once its
    connections are shut."""
    ends = {"ADDRESS_NOT_ALLOWED": (False, False), "SOURCE_UNREACHABLE": (True, True)}
    for reason, (private_addresses, is_shut) in ends.items():
        start = pb.CollectStart(
            source=source, private_addresses=private_addresses, max_document_bytes=_MAX_BYTES
        )
        thread = OwnThread()
        if is_shut:
            thread.connections.shut()
        try:
            async with aclosing(registry.batches(start, NoPages(), thread)) as batches:
                async for _ in batches:
                    raise AssertionError(f"a run does not end with {reason}: does it read by Run.pool alone?")
        except GroundlineError as error:
            if error.reason != reason:
                raise AssertionError(f"a run ends with {error.reason} in place of {reason}") from error
        finally:
            thread.end()


async def _read(
    registry: SourceRegistry, source: source_pb2.DocumentSource
) -> dict[str, tuple[Found, bytes]]:
    start = pb.CollectStart(source=source, private_addresses=True, max_document_bytes=_MAX_BYTES)
    documents, is_reached = dict[str, tuple[Found, bytes]](), False
    async with aclosing(registry.read(start, NoPages())) as batches:
        async for batch, thread in batches:
            assert not is_reached, "changes follow the one that is reached"
            for change in batch:
                if not isinstance(change, Found):
                    is_reached = change.HasField("reached")
                    continue
                assert change.uri.startswith(f"{source.name}/"), f"{change.uri} lacks Run.uri_prefix"
                assert change.uri not in documents, f"{change.uri} is found twice"
                document = await thread.call(change.load)
                assert document.uri == change.uri, f"{change.uri} is loaded as {document.uri}"
                documents[change.uri] = change, await thread.call(b"".join, document.content)
    assert is_reached, "a run must end by reached()"
    return documents


class NoPages:
    """Implements SeenPages, without any."""

    async def recall(self, url: str) -> pb.SeenPage | None:
        return None

    async def note(self, page: pb.SeenPage) -> None:
        pass
