"""Client of Weaviate: chunks are written, deleted, listed and searched over gRPC; classes are created over
HTTP."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from itertools import batched, cycle
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from groundline_embedding.ports import Vectors
from groundline_runtime.channels import open_channel
from groundline_runtime.errors import FailedPreconditionError, GroundlineError, UnavailableError

from groundline_weaviate import wire_pb2 as wire
from groundline_weaviate import wire_pb2_grpc
from groundline_weaviate.chunks import Entry, IndexedChunk, Space, key_of, object_id
from groundline_weaviate.classes import class_definition, is_quantized_class, object_of
from groundline_weaviate.conditions import contains_any
from groundline_weaviate.settings import WeaviateSettings

# Takes 8 MB, in processes that use no Weaviate, too.
if TYPE_CHECKING:
    import httpx

MAX_PROPOSALS: Final = 10_000
"""Maximum results of one search, and objects of one deletion; the server's own limit
(QUERY_MAXIMUM_RESULTS)."""

BATCH: Final = 250
"""Objects in one call."""

CALLS: Final = 2
"""Maximum concurrent calls that write, so that nodes are busy while the next objects are made."""

MAX_ENTRIES: Final = 5_000
"""Maximum entries in one page."""

RETRY_SECONDS: Final = 5.0
"""Time after which an engine that did not answer is worth another call, in seconds."""

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.02
"""First pause for a class that a node does not know, in seconds; each further one is longer by as much."""

_EVERY_NODE_SECONDS: Final = 5.0
"""Time that a write waits for every node before a majority is enough, in seconds."""

_MAJORITY_SECONDS: Final = 30.0
"""Time that writes do not wait for a node that has kept one waiting, in seconds."""

_QUEUE_SECONDS: Final = 0.05
"""Between two looks at what the nodes have yet to take into their vector indexes."""

_SCALES: Final = tuple(2.0**exponent for exponent in range(-32, 33))
"""Factors of written vectors. They are powers of two, so that a vector has the same direction, bit for bit,
and a finite length."""

_SERVICE: Final = "weaviate.v1.Weaviate"
_MAX_MESSAGE_BYTES: Final = 100 * 1024**2

# Most errors come as UNKNOWN, told apart by their texts only.
_NOT_FOUND: Final = ("could not find class", "non-existing index", "not present in schema")
_UNKNOWN_CLASS: Final = "the distributed index does not know its classes yet"
_REFUSALS: Final = ("unauthorized", "forbidden")


class Proposal(NamedTuple):
    """A chunk that a search proposes."""

    partition_id: int
    chunk_id: int
    score: float


class WriteFailure(NamedTuple):
    """An object that was not written, and what the server says of it. Nothing of the object is in it."""

    partition_id: int
    chunk_id: int
    message: str


@asynccontextmanager
async def open_weaviate(settings: WeaviateSettings) -> AsyncIterator["Weaviate"]:
    """Provide a client that is closed on exit. It connects when it is used: the server need not be there
    yet."""
    headers = {}
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    import httpx

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=str(settings.http_url), headers=headers, timeout=settings.timeout_seconds
            )
        )
        channel = await stack.enter_async_context(
            open_channel(
                settings.grpc_target,
                service=_SERVICE,
                default_timeout_seconds=settings.timeout_seconds,
                max_message_bytes=_MAX_MESSAGE_BYTES,
                is_of_suite=False,
            )
        )
        yield Weaviate(settings, http, channel, tuple(headers.items()))


class Weaviate:
    """Made by open_weaviate. Every method raises UnavailableError (SEARCH_INDEX_UNAVAILABLE) where the engine
    does not answer, and FailedPreconditionError (SEARCH_INDEX_REFUSED) where it refuses the call."""

    def __init__(
        self,
        settings: WeaviateSettings,
        http: "httpx.AsyncClient",
        channel: grpc.aio.Channel,
        metadata: Sequence[tuple[str, str]],
    ) -> None:
        self._settings = settings
        self._http = http
        self._metadata = metadata
        self._timeout = settings.timeout_seconds
        self._seen: set[str] = set()
        self._majority_until = 0.0
        # Another process may have been stopped in the middle of a write.
        self._scales = cycle(random.sample(_SCALES, len(_SCALES)))
        self._scale = next(self._scales)
        stub = wire_pb2_grpc.WeaviateStub(channel)
        self._search: Any = stub.Search
        self._write: Any = stub.BatchObjects
        self._delete: Any = stub.BatchDelete

    async def require_access(self) -> None:
        """Raise unless a node answers and takes the key."""
        await self._found(wire.SearchRequest(collection=f"{self._settings.class_prefix}_none", limit=1))

    async def create(self, space: Space) -> None:
        """Create the class of a space unless it is there.

        Raises FailedPreconditionError (SEARCH_INDEX_REFUSED) where the server has no quantization that the
        space needs.
        """
        name = self._class(space)
        with _http_errors():
            found = await self._http.get(f"/v1/schema/{name}")
            if found.status_code == HTTPStatus.NOT_FOUND:
                copies = self._settings.replication_factor
                definition = class_definition(
                    name, await self._shards(), copies, is_quantized=space.is_quantized
                )
                created = await self._http.post("/v1/schema", json=definition)
                if (
                    created.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
                    and "already exists" in created.text
                ):
                    return
                created.raise_for_status()
                # Releases that do not know it leave it out without a word.
                if space.is_quantized and not is_quantized_class(created.json()):
                    (await self._http.delete(f"/v1/schema/{name}")).raise_for_status()
                    raise FailedPreconditionError(
                        "SEARCH_INDEX_REFUSED",
                        "the distributed index cannot quantize vectors: it takes Weaviate 1.32 or newer",
                    )
            else:
                found.raise_for_status()

    async def drop(self, space: Space) -> None:
        """Drop the class of a space with all that it holds; nothing where it is not there."""
        self._seen.discard(self._class(space))
        with _http_errors():
            (await self._http.delete(f"/v1/schema/{self._class(space)}")).raise_for_status()

    async def write(self, space: Space, chunks: Iterable[IndexedChunk]) -> Sequence[WriteFailure]:
        """Write objects in place of those of the same chunks, of which none may come twice; returns which of
        them failed. May be repeated. Chunks are taken as calls need them, so that they can be made meanwhile.

        What is written can be found when this returns: on every node that answers, or after some seconds on
        a majority of the nodes that hold it.
        """
        failures: list[WriteFailure] = []
        batches = batched(chunks, BATCH)

        async def calls() -> None:
            for batch in batches:
                for error in (await self._written(self._class(space), batch)).errors:
                    failed = batch[error.index]
                    failures.append(WriteFailure(failed.partition_id, failed.chunk_id, error.error))

        # All calls have ended when this raises: none may bring an old state after what is written next.
        for outcome in await asyncio.gather(*(calls() for _ in range(CALLS)), return_exceptions=True):
            if outcome is not None:
                raise outcome
        await self._vectors_indexed(self._class(space))
        return failures

    async def delete(self, space: Space, partition_id: int, chunk_ids: Sequence[int]) -> None:
        """Delete the existing objects of a partition's chunks, on a majority of their nodes."""
        for batch in batched(chunk_ids, BATCH):
            names = [str(object_id(partition_id, chunk_id)) for chunk_id in batch]
            await self._delete_where(space, contains_any("_id", names))

    async def delete_partition(self, space: Space, partition_id: int) -> None:
        """Delete all objects of a partition, on a majority of their nodes."""
        await self._delete_where(space, contains_any("partition_id", [partition_id]))

    async def entries(
        self, space: Space, partition_id: int, *, after: int = 0, limit: int = 1000
    ) -> Sequence[Entry]:
        """Return the entries of a partition's chunks above the id `after`, in the order of their ids, at most
        `limit` (MAX_ENTRIES at most); an empty page is the end.

        One node of each shard is asked, which may lack the writes of the last seconds.
        """
        request = wire.SearchRequest(
            collection=self._class(space),
            limit=min(limit, MAX_ENTRIES),
            after=str(object_id(partition_id, after)),
            properties=wire.PropertiesRequest(non_ref_properties=["content_hash"]),
            metadata=wire.MetadataRequest(uuid=True),
            uses_127_api=True,
        )
        entries = []
        for result in await self._found(request):
            found_partition, chunk_id = key_of(result.metadata.id_as_bytes)
            if found_partition != partition_id:
                break
            content_hash = result.properties.non_ref_props.fields["content_hash"].text_value
            entries.append(Entry(chunk_id, content_hash))
        return entries

    async def keyword(
        self, space: Space, words: str, condition: wire.Filters, *, limit: int
    ) -> Sequence[Proposal]:
        """Return the best chunks by BM25 for words of `searched_words`, at most `limit` (MAX_PROPOSALS at
        most).

        Scores are comparable within one class, whose term statistics cover all its objects.
        """
        if not words:
            return ()
        request = self._searched(space, condition, limit)
        request.bm25_search.query = words
        request.bm25_search.properties.append("words")
        request.metadata.score = True
        return [
            Proposal(*key_of(result.metadata.id_as_bytes), result.metadata.score)
            for result in await self._found(request)
        ]

    async def semantic(
        self, space: Space, vector: Vectors, condition: wire.Filters, *, limit: int
    ) -> Sequence[Proposal]:
        """Return the nearest chunks by cosine similarity, at most `limit` (MAX_PROPOSALS at most)."""
        request = self._searched(space, condition, limit)
        request.near_vector.vector_bytes = vector.astype("<f4").tobytes()
        request.metadata.distance = True
        return [
            Proposal(*key_of(result.metadata.id_as_bytes), 1.0 - result.metadata.distance)
            for result in await self._found(request)
        ]

    def _searched(self, space: Space, condition: wire.Filters, limit: int) -> wire.SearchRequest:
        """Return a search that reads no properties."""
        return wire.SearchRequest(
            collection=self._class(space),
            filters=condition,
            limit=min(limit, MAX_PROPOSALS),
            metadata=wire.MetadataRequest(uuid=True),
            properties=wire.PropertiesRequest(),
            uses_127_api=True,
            # Proposals may be stale: PostgreSQL decides.
            consistency_level=wire.CONSISTENCY_LEVEL_ONE,
        )

    async def _written(self, name: str, chunks: Sequence[IndexedChunk]) -> wire.BatchObjectsReply:
        try:
            return await _known(partial(self._written_once, name, chunks))
        except _NoClassError as error:
            raise _unavailable(_UNKNOWN_CLASS) from error

    async def _written_once(self, name: str, chunks: Sequence[IndexedChunk]) -> wire.BatchObjectsReply:
        """Write on all nodes, since searches ask one. A majority is enough while one of them does not answer:
        it catches up later, and until then an address of ready nodes does not lead to it."""
        refused, is_on_one = len(chunks), self._settings.replication_factor == 1
        if time.monotonic() >= self._majority_until:
            patience = self._timeout if is_on_one else min(_EVERY_NODE_SECONDS, self._timeout)
            try:
                reply = await self._write_call(name, chunks, wire.CONSISTENCY_LEVEL_ALL, patience)
            except UnavailableError:
                if is_on_one:
                    raise
            else:
                if not reply.errors:
                    return reply
                refused = len(reply.errors)
        reply = await self._write_call(name, chunks, wire.CONSISTENCY_LEVEL_QUORUM, self._timeout)
        if len(reply.errors) < refused:  # a node's fault, not the objects'
            self._majority_until = time.monotonic() + _MAJORITY_SECONDS
        return reply

    async def _write_call(
        self,
        name: str,
        chunks: Sequence[IndexedChunk],
        level: "wire.ConsistencyLevel.ValueType",
        within_seconds: float,
    ) -> wire.BatchObjectsReply:
        """Write once. A node whose call is cut off may keep objects without indexing their vectors, and does
        not index a vector that it has stored already (1.39: storeAdditionalStorageWithAsyncQueue). So what is
        written after a failure has vectors of another length, which cosine similarity does not see."""
        objects = [object_of(chunk, name, self._scale) for chunk in chunks]
        request = wire.BatchObjectsRequest(objects=objects, consistency_level=level)
        is_whole = False
        try:
            reply: wire.BatchObjectsReply = await self._call(
                self._write, request, within_seconds=within_seconds
            )
            is_whole = not reply.errors
        finally:
            if not is_whole:
                self._scale = next(self._scales)
        if any(_is_no_class(refused.error) for refused in reply.errors):
            raise _NoClassError
        return reply

    async def _vectors_indexed(self, name: str) -> None:
        """Wait until the written vectors of a class are in the indexes.

        Behind a queue on disk they survive a killed node (ASYNC_INDEXING); those that are written into the
        index at once do not (1.39: a batch's last ones are flushed with the next batch). Does not wait for
        nodes that do not answer.
        """
        begun, is_waiting = time.monotonic(), True
        while is_waiting:
            waiting = await self._waiting_vectors(name)
            waited = time.monotonic() - begun
            tolerated = (len(waiting) - 1) // 2 if waited > _EVERY_NODE_SECONDS else 0
            is_waiting = not waiting or sum(map(bool, waiting)) > tolerated
            if is_waiting and waited > self._timeout:
                raise _unavailable("the distributed index is still taking in what was written")
            # Also at the end: vectors leave the queue just before the index's log is flushed (1.39).
            await asyncio.sleep(_QUEUE_SECONDS)

    async def _waiting_vectors(self, name: str) -> Sequence[int]:
        """Return how many vectors of a class wait for each node's index, for the nodes that answer;
        nothing if the one that is asked cannot say."""
        import httpx

        try:
            reply = await self._http.get(f"/v1/nodes/{name}", params={"output": "verbose"})
            reply.raise_for_status()
        except httpx.HTTPError:
            return ()
        return [
            # One that is too busy to say how many has some.
            sum(shard.get("vectorQueueLength", 0) for shard in node.get("shards") or ())
            + (node["status"] == "TIMEOUT")
            for node in reply.json()["nodes"]
        ]

    async def _found(self, request: wire.SearchRequest) -> Sequence[wire.SearchResult]:
        try:
            reply = await _known(partial(self._call, self._search, request))
        except _NoClassError as error:
            if request.collection in self._seen:
                raise _unavailable(_UNKNOWN_CLASS) from error
            return ()
        self._seen.add(request.collection)
        results: Sequence[wire.SearchResult] = reply.results
        return results

    async def _delete_where(self, space: Space, condition: wire.Filters) -> None:
        request = wire.BatchDeleteRequest(
            collection=self._class(space),
            filters=condition,
            consistency_level=wire.CONSISTENCY_LEVEL_QUORUM,
        )
        while True:
            try:
                reply = await self._call(self._delete, request)
            except _NoClassError:
                return
            if reply.failed:
                raise _unavailable(f"the distributed index did not delete {reply.failed} objects")
            if reply.matches < MAX_PROPOSALS:
                return

    async def _call(self, method: Any, request: Any, *, within_seconds: float | None = None) -> Any:
        try:
            call: Awaitable[Any] = method(
                request, timeout=within_seconds or self._timeout, metadata=self._metadata
            )
            return await call
        except grpc.aio.AioRpcError as error:
            raise _error_of(error) from error

    def _class(self, space: Space) -> str:
        return space.class_name(self._settings.class_prefix)

    async def _shards(self) -> int:
        """Return the number of shards of a new class."""
        if self._settings.shards is not None:
            return self._settings.shards
        found = await self._http.get("/v1/nodes")
        found.raise_for_status()
        nodes = len(found.json()["nodes"])
        # Each shard counts only its own words, so that scores of several compare less well; and where every
        # node holds everything, several spread nothing.
        return 1 if self._settings.replication_factor >= nodes else nodes


class _NoClassError(GroundlineError):
    """The node that answered does not know the class; caught here."""

    def __init__(self) -> None:
        super().__init__("SEARCH_INDEX_UNAVAILABLE", "this space is empty")


async def _known[T](call: Callable[[], Awaitable[T]]) -> T:
    """Call until the node that answers knows the class, a few times: one that is starting, or has yet to hear
    of a new class, may not, and the next call goes to another. Raises _NoClassError."""
    for attempt in range(_ATTEMPTS - 1):
        with suppress(_NoClassError):
            return await call()
        await asyncio.sleep(_PAUSE_SECONDS * attempt)
    return await call()


def _is_no_class(message: str) -> bool:
    return any(text in message for text in _NOT_FOUND)


def _unavailable(message: str) -> UnavailableError:
    return UnavailableError("SEARCH_INDEX_UNAVAILABLE", message, retry_after_seconds=RETRY_SECONDS)


def _error_of(error: grpc.aio.AioRpcError) -> GroundlineError:
    """Return an error without the server's text, which may name its nodes."""
    details = error.details() or ""
    if _is_no_class(details):
        return _NoClassError()
    if any(text in details for text in _REFUSALS) or error.code() in (
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    ):
        return FailedPreconditionError(
            "SEARCH_INDEX_REFUSED", f"the distributed index refused the call ({error.code().name})"
        )
    return _unavailable(f"the distributed index did not answer ({error.code().name})")


@contextmanager
def _http_errors() -> Iterator[None]:
    import httpx

    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if 400 <= status < 500:
            raise FailedPreconditionError(
                "SEARCH_INDEX_REFUSED", f"the distributed index refused the call (HTTP {status})"
            ) from error
        raise _unavailable(f"the distributed index failed (HTTP {status})") from error
    except httpx.HTTPError as error:
        raise _unavailable("the distributed index did not answer") from error
