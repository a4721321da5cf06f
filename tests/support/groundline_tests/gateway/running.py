"""A gateway for tests: a real HTTP server that speaks the gateway's JSON and keeps everything in memory."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from click.testing import Result
from groundline_cli.connection import Connection
from groundline_tests.http_server import Answering, listening

type Json = dict[str, Any]
type Run = Callable[..., Result]
"""Runs `groundline ARGUMENTS…`, which must end with the exit code `code`, 0 unless it is given."""

_TEXT_PART: Final = 40  # so small that a text has several parts
_PAGE: Final = 2  # so small that lists of three have two pages


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to one request: JSON, text, or server-sent events."""

    http_status: int
    body: Json | str | list[Json]


def status(code: int, message: str, reason: str, *details: Json) -> Json:
    """Return google.rpc.Status in JSON."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "groundline.dev"}
    return {"code": code, "message": message, "details": [info, *details]}


@dataclass(slots=True)
class FakeGateway:
    """State of the server, and its requests."""

    connection: Connection
    collections: dict[str, Json] = field(default_factory=dict)
    documents: dict[str, dict[str, Json]] = field(default_factory=dict)
    """DocumentInput by collection and uri, with `documentId` added."""
    jobs: dict[str, list[Json]] = field(default_factory=dict)
    """Items by job id."""
    requests: list[tuple[str, str, Json]] = field(default_factory=list)
    """Method, path and body of every request."""
    last_event_ids: list[str] = field(default_factory=list)
    """Last-Event-ID of each request, in the same order; "" if it had none."""
    next_replies: list[Reply] = field(default_factory=list)
    """Answers to the next requests, whatever they are."""
    threads: dict[str, list[Json]] = field(default_factory=dict)
    """Messages by thread id."""
    chat_events: list[Json] = field(default_factory=list)
    verify_events: list[Json] = field(default_factory=list)
    answer: Json = field(default_factory=dict)
    answers: dict[str, Json] = field(default_factory=dict)
    """Answers to certain questions; the others have `answer`."""
    passages: list[Json] | None = None
    """Passages that every search finds; None: documents by how many of the query's words they hold."""
    stats: Json = field(default_factory=dict)
    before_answer: Callable[[str], Reply | None] = lambda _question: None
    """Called with each question; what it returns is the reply."""
    before_create: Callable[[Json], Reply | None] = lambda _body: None
    """Called with each collection that is to be created, likewise."""
    degraded: list[Json] = field(default_factory=list)
    site: list[Json] = field(default_factory=list)
    """Items of every crawl, the crawl itself among them."""
    healthy: bool = True
    jobs_take_time: bool = False
    """Whether a job is still running when the request that began it is answered."""

    def paths(self, method: str) -> list[str]:
        """Return the paths requested with `method`."""
        return [path for name, path, _ in self.requests if name == method]

    def reply(self, method: str, path: str, query: dict[str, str], body: Json) -> Reply:
        """Return the answer to one request."""
        self.requests.append((method, path, body))
        if self.next_replies:
            return self.next_replies.pop(0)
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["api", "collections"]:
                return _page("collections", sorted(self.collections.values(), key=_by("collectionId")), query)
            case "POST", ["api", "collections"]:
                return self.before_create(body) or self._create(body)
            case "GET", ["api", "collections", name] if name in self.collections:
                return Reply(200, {"collection": self.collections[name]})
            case "PATCH", ["api", "collections", name] if name in self.collections:
                self.collections[name] |= {key: body[key] for key in ("name", "settings") if key in body}
                return Reply(200, {"collection": self.collections[name]})
            case "DELETE", ["api", "collections", name] if name in self.collections:
                del self.collections[name]
                return Reply(200, {})
            case "POST", ["api", "collections", name, "documents"] if name in self.collections:
                return self._ingest(name, body)
            case "GET", ["api", "collections", name, "documents"] if name in self.collections:
                documents = self.documents.get(name, {})
                kind = json.loads(query.get("filterJson", "{}")).get("$source_type", "")
                selected = [
                    documents[uri]
                    for uri in sorted(documents)
                    if documents[uri].get("sourceType", "SOURCE_TYPE_FILE").lower().endswith(kind)
                ]
                return _page("documents", selected, query)
            case "GET", ["api", "collections", name, "documents", document_id, "text"]:
                return self._document_text(name, document_id, int(query.get("startOffset", 0)))
            case "DELETE", ["api", "collections", name, "documents", _] if name in self.collections:
                return Reply(200, {})
            case "POST", ["api", "collections", name, "documents:delete"] if name in self.collections:
                return self._delete(name, body)
            case "GET", ["api", "jobs"]:
                return _page(
                    "jobs", [_job(job_id, "DONE", items) for job_id, items in self.jobs.items()], query
                )
            case "GET", ["api", "jobs", job_id] if job_id in self.jobs:
                items = self.jobs[job_id]
                page = _page("items", items, query)
                assert isinstance(page.body, dict)
                return Reply(200, {"job": _job(job_id, "DONE", items), **page.body})
            case "GET", ["api", "jobs", watched] if watched.removesuffix(":watch") in self.jobs:
                job_id = watched.removesuffix(":watch")
                items = self.jobs[job_id]
                states = [_job(job_id, "RUNNING", items[:1]), _job(job_id, "DONE", items)]
                return Reply(200, [{"job": state, "items": []} for state in states])
            case "GET", ["api", "threads"]:
                return _page(
                    "threads",
                    [
                        {
                            "threadId": thread_id,
                            "messageCount": len(messages),
                            "title": messages[0]["content"],
                        }
                        for thread_id, messages in self.threads.items()
                    ],
                    query,
                )
            case "GET", ["api", "threads", thread_id] if thread_id in self.threads:
                return _page("messages", self.threads[thread_id], query)
            case "POST", ["api", "threads", thread_id, "messages", rated] if thread_id in self.threads:
                return self._rate(thread_id, rated.removesuffix(":rate"), body.get("feedback", {}))
            case "DELETE", ["api", "threads", thread_id] if thread_id in self.threads:
                del self.threads[thread_id]
                return Reply(200, {})
            case "POST", ["api", "jobs", named] if named.partition(":")[0] in self.jobs:
                job_id, _, verb = named.partition(":")
                state = {"cancel": "CANCELLED", "retry": "QUEUED"}[verb]
                return Reply(200, {"job": _job(job_id, state, self.jobs[job_id])})
            case "POST", ["api", "collections", named] if named.endswith(":reindex"):
                job_id = next(iter(self.jobs))
                return Reply(200, {"job": _job(job_id, "QUEUED", self.jobs[job_id])})
            case "GET", ["api", "quotas"]:
                return Reply(200, {"quotas": [{"quota": "QUOTA_THREADS", "used": 3, "limit": 7}]})
            case "GET", ["api", "collections", name, "stats"] if name in self.collections:
                return Reply(200, {"stats": self.stats})
            case "POST", ["api", "search"]:
                return Reply(200, {"passages": self._search(body), "degraded": self.degraded})
            case "POST", ["api", "verify"]:
                return Reply(200, self.verify_events)
            case "POST", ["api", "answer"]:
                return self._answer(body["query"])
            case "POST", ["api", "chat"]:
                return Reply(200, self.chat_events)
        return Reply(404, status(5, f"nothing at {path}", "NOT_FOUND"))

    def _create(self, body: Json) -> Reply:
        name = body["collectionId"]
        if name in self.collections:
            return Reply(409, status(6, f"the collection {name} is there already", "ALREADY_EXISTS"))
        self.collections[name] = {"documentCount": 0, "chunkCount": 0, "name": name, **body}
        return Reply(200, {"collection": self.collections[name]})

    def _ingest(self, name: str, body: Json) -> Reply:
        if "crawl" in body:
            job_id = f"job-{len(self.jobs) + 1}"
            self.jobs[job_id] = self.site
            return Reply(200, {"job": _job(job_id, "QUEUED", []), "items": self.site[:1]})
        violations = [
            {"field": f"documents[{position}].text", "description": "must not be empty"}
            for position, document in enumerate(body["documents"])
            if not _text(document).strip()
        ]
        if violations:
            detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
            return Reply(400, status(3, "the request is wrong", "INVALID_FIELDS", detail))
        if body.get("dryRun"):
            items = [
                {"uri": one["uri"], "chunks": {"parsed": 2}, "usage": {"promptTokens": 30, "outputTokens": 7}}
                for one in body["documents"]
            ]
            return Reply(200, {"job": _job("", "DONE", []), "items": items})
        stored = self.documents.setdefault(name, {})
        items = []
        for document in body["documents"]:
            uri = document["uri"]
            earlier = stored.get(uri)
            outcome = (
                "CREATED"
                if earlier is None
                else "UNCHANGED"
                if _text(earlier) == _text(document)
                else "UPDATED"
            )
            item: Json = {
                "uri": uri,
                "state": "INGESTION_STATE_DONE",
                "outcome": f"INGESTION_OUTCOME_{outcome}",
            }
            item["attempts"] = 1
            item["chunks"] = {"parsed": 1, "contextualized": 1, "embedded": 1, "stored": 1}
            if "unreadable" in _text(document):
                failure = {
                    "stage": "INGESTION_STATE_EXTRACTING",
                    "reason": "BAD",
                    "message": "cannot be read",
                }
                item = {"uri": uri, "state": "INGESTION_STATE_FAILED", "failure": failure}
            else:
                document_id = hashlib.sha256(uri.encode()).hexdigest()[:8]
                stored[uri] = {
                    **document,
                    "documentId": document_id,
                    "sourceType": f"SOURCE_TYPE_{'OBJECT' if 'object' in document else 'FILE'}",
                    "state": "INGESTION_STATE_DONE",
                }
            items.append(item)
        job_id = f"job-{len(self.jobs) + 1}"
        self.jobs[job_id] = items
        if self.jobs_take_time:
            return Reply(200, {"job": _job(job_id, "RUNNING", []), "items": []})
        return Reply(200, {"job": _job(job_id, "DONE", items), "items": items})

    def _document_text(self, name: str, document_id: str, start: int) -> Reply:
        """Return a part of a document's text."""
        documents = self.documents[name].values()
        text = next(_text(one) for one in documents if one["documentId"] == document_id)
        part = text[start : start + _TEXT_PART]
        fields = {"startOffset": start, "endOffset": start + len(part), "characterCount": len(text)}
        return Reply(200, {"text": part, **fields})

    def _rate(self, thread_id: str, message_id: str, feedback: Json) -> Reply:
        for message in self.threads[thread_id]:
            if message["messageId"] == message_id:
                message["feedback"] = feedback
        return Reply(200, {"feedback": feedback})

    def _answer(self, question: str) -> Reply:
        return self.before_answer(question) or Reply(200, self.answers.get(question, self.answer))

    def _delete(self, name: str, body: Json) -> Reply:
        """Delete documents by their ids."""
        documents = self.documents.get(name, {})
        ids = body["filter"]["$document_id"]["$in"]
        selected = [uri for uri, document in documents.items() if document["documentId"] in ids]
        for uri in [] if body.get("dryRun") else selected:
            del documents[uri]
        return Reply(200, {"deletedCount": len(selected)} if selected else {})

    def _search(self, body: Json) -> list[Json]:
        if self.passages is not None:
            return self.passages
        words = set(re.findall(r"\w+", body["query"].lower()))
        names = body.get("collectionIds") or list(self.collections)
        found: list[Json] = [
            {
                "score": float(hits),
                "chunk": {"uri": uri, "title": document.get("title", ""), "text": _text(document)},
            }
            for name in names
            for uri, document in self.documents.get(name, {}).items()
            if (hits := len(words & set(re.findall(r"\w+", _text(document).lower()))))
        ]
        top_k = body.get("options", {}).get("rerank", {}).get("topK", 8)
        return sorted(found, key=lambda passage: -passage["score"])[:top_k]


@contextmanager
def fake_gateway(api_key: str = "a-key-for-tests-only") -> Iterator[FakeGateway]:
    """Run a FakeGateway on a free port of the loopback interface."""

    class Handler(Answering):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self._content()
            url = urlsplit(self.path)
            if url.path == "/healthz":
                status_code, word = (200, "SERVING") if gateway.healthy else (503, "NOT_SERVING")
                reply = Reply(status_code, {"status": word})
            elif self.headers.get("authorization") != f"Bearer {api_key}":
                reply = Reply(401, status(16, "send a valid API key", "API_KEY_INVALID"))
            else:
                gateway.last_event_ids.append(self.headers.get("last-event-id", ""))
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                reply = gateway.reply(self.command, url.path, query, self._fields(body))
            self._send(reply)

        def _content(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.given()
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _fields(self, body: bytes) -> Json:
            """Parse a body that is JSON; an upload's is a document."""
            is_json = self.headers.get("content-type") == "application/json"
            return json.loads(body) if body and is_json else {}

        do_GET = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815 - the names are http.server's

        def _send(self, reply: Reply) -> None:
            if isinstance(reply.body, list):
                content_type = "text/event-stream"
                content = "".join(map(_event, reply.body)).encode()
            elif isinstance(reply.body, str):
                content_type, content = "text/plain", reply.body.encode()
            else:
                content_type, content = "application/json", json.dumps(reply.body).encode()
            self.answer(reply.http_status, content, {"content-type": content_type})

    with listening(Handler) as url:
        gateway = FakeGateway(Connection(url, api_key))
        yield gateway


def _event(event: Json) -> str:
    """Return a server-sent event, with the id that is in it."""
    named = f"id: {event['eventId']}\n" if "eventId" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n"


def _text(document: Json) -> str:
    """Return a document's text, however it was handed in."""
    if "data" in document:
        return base64.b64decode(document["data"]).decode(errors="replace")
    return str(document["text"] if "text" in document else document["object"])


def _page(key: str, items: list[Json], query: dict[str, str]) -> Reply:
    start = int(query.get("pageToken", "0"))
    end = start + min(_PAGE, int(query.get("pageSize", _PAGE)))
    return Reply(200, {key: items[start:end], "nextPageToken": str(end) if end < len(items) else ""})


def _job(job_id: str, state: str, items: list[Json]) -> Json:
    items = [item for item in items if not item.get("isCrawl") or item["state"] != "INGESTION_STATE_DONE"]
    failed = sum(item["state"] == "INGESTION_STATE_FAILED" for item in items)
    return {
        "jobId": job_id,
        "collectionId": "docs",
        "state": f"JOB_STATE_{state}",
        "itemCount": len(items),
        "doneCount": len(items) - failed,
        "failedCount": failed,
        "cancelledCount": 0,
        "chunks": {"stored": len(items) - failed},
    }


def _by(key: str) -> Any:
    return lambda item: item[key]
