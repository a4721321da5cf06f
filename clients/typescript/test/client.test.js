// What the client tries again, and what it makes of answers that break off.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, beforeEach, test } from "node:test";

import { ApiError, corrected, GroundlineClient, newRequestId, ProtocolError, UnreachableError } from "../src/client.js";
import { events } from "../src/sse.js";

const status = (code, message, reason, ...details) => ({
  code,
  message,
  details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }, ...details],
});
const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "0.01s" };
const DOWN = { status: 503, json: status(14, "a service is not available", "SERVICE_UNAVAILABLE") };
const LIMITED = { status: 429, json: status(8, "too many requests", "RATE_LIMITED", retryInfo) };
const TOO_LARGE = { status: 429, json: status(8, "message larger than max", "TOO_LARGE") };

let requests = [];
let replies = [];
let client;
const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const { method, url, headers } = request;
    requests.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
    const reply = replies.shift() ?? { json: {} };
    if (reply.breakOff) {
      response.writeHead(200, { "content-type": "text/event-stream", "content-length": "1000" });
      response.write(reply.breakOff);
      setTimeout(() => response.destroy(), 10);
    } else if (reply.events) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const named = (one) => (one.eventId ? `id: ${one.eventId}\n` : "");
      response.end(reply.events.map((one) => `${named(one)}data: ${JSON.stringify(one)}\n\n`).join(""));
    } else {
      response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
      response.end(reply.text ?? JSON.stringify(reply.json));
    }
  });
});

before(async () => {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  client = new GroundlineClient(`http://127.0.0.1:${server.address().port}/`, "a-key");
});
after(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  requests = [];
  replies = [];
});

async function collected(iterator) {
  const found = [];
  for await (const one of iterator) found.push(one);
  return found;
}

test("no gateway at the address", async () => {
  const nowhere = new GroundlineClient("http://127.0.0.1:1", "a-key");
  await assert.rejects(nowhere.answer({ query: "x" }), UnreachableError);
});

test("something else that answers is not taken for a gateway", async () => {
  replies = [{ text: "<html>" }, { text: "[]" }, { text: "<html>" }];
  await assert.rejects(client.search({ query: "x" }), ProtocolError);
  await assert.rejects(client.search({ query: "x" }), ProtocolError);
  await assert.rejects(collected(client.chat({ query: "x" })), /not events/);
});

test("a refusal says why, and names every wrong field", async () => {
  const violations = [{ field: "query", description: "must not be empty" }];
  const badRequest = { "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: violations };
  replies = [{ status: 400, json: status(3, "wrong", "INVALID_REQUEST", badRequest) }];
  await assert.rejects(client.search({ query: "" }), (error) => {
    assert.ok(error instanceof ApiError);
    assert.deepEqual(
      [error.code, error.reason, error.httpStatus, error.violations, error.retryable],
      [3, "INVALID_REQUEST", 400, violations, false],
    );
    return true;
  });
});

test("what is idempotent is tried again, and has an end", async () => {
  replies = [DOWN, LIMITED, { json: { passages: [] } }];
  assert.deepEqual(await client.search({ query: "x" }), { passages: [] });
  assert.equal(requests.length, 3);
  replies = Array(50).fill(LIMITED);
  await assert.rejects(client.search({ query: "x" }), /too many requests/);
  assert.equal(requests.length, 9);
});

test("what the contract does not call idempotent is not, unless it has a request id", async () => {
  replies = [DOWN];
  await assert.rejects(client.answer({ query: "x" }), ApiError);
  replies = [DOWN, { json: { answer: "27" } }];
  assert.deepEqual(await client.answer({ query: "x", requestId: "r-1" }), { answer: "27" });
  assert.deepEqual(
    requests.map((one) => JSON.parse(one.body).requestId),
    [undefined, "r-1", "r-1"],
  );
});

test("a request id that makes a request idempotent is made up, and stays the same", async () => {
  replies = [DOWN, { json: { collection: {} } }];
  await client.createCollection({ collectionId: "docs" });
  const [first, second] = requests.map((one) => JSON.parse(one.body).requestId);
  assert.match(first, /^[0-9a-f]{32}$/);
  assert.equal(first, second);
});

test("a request that is too much is not tried again", async () => {
  replies = [TOO_LARGE];
  await assert.rejects(client.search({ query: "x" }), /larger than max/);
  assert.equal(requests.length, 1);
});

test("who is to come again tomorrow is told so at once", async () => {
  replies = [{ ...LIMITED, json: status(8, "used up", "QUOTA_EXHAUSTED"), headers: { "retry-after": "40000" } }];
  await assert.rejects(client.search({ query: "x" }), /used up/);
  assert.equal(requests.length, 1);
});

test("a signal ends a call within its pause", async () => {
  replies = [{ ...LIMITED, json: status(8, "busy", "RATE_LIMITED"), headers: { "retry-after": "25" } }];
  await assert.rejects(client.search({ query: "x" }, { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  assert.equal(requests.length, 1);
});

test("a chat that ends in an error event, or just ends, is an error", async () => {
  replies = [{ events: [{ started: {} }, { error: { code: 14, message: "broken", retryable: true } }] }];
  await assert.rejects(collected(client.chat({ query: "x" })), (error) => error.retryable && error.code === 14);
  replies = [{ events: [{ started: {} }] }];
  await assert.rejects(collected(client.chat({ query: "x" })), /broke off/);
  replies = [{ breakOff: 'data: {"started": {}}\r\n\r' }];
  await assert.rejects(collected(client.chat({ query: "x" })), UnreachableError);
});

test("a chat with a request id goes on behind what came last, but not for ever", async () => {
  const cutOff = { events: [{ eventId: "1", started: {} }, { eventId: "2", delta: { text: "27 " } }] };
  replies = [cutOff, DOWN, { events: [{ eventId: "3", delta: { text: "days" } }, { eventId: "4", completed: {} }] }];
  const events = await collected(client.chat({ query: "x", requestId: "r" }));
  assert.equal(events.map(({ delta }) => delta?.text ?? "").join(""), "27 days");
  const asked = () => requests.map(({ headers }) => headers["last-event-id"]);
  assert.deepEqual(asked(), [undefined, "2", "2"]);
  requests = [];
  replies = [cutOff, cutOff, cutOff];
  await assert.rejects(collected(client.chat({ query: "x", requestId: "r" })), /broke off/);
  assert.deepEqual(asked(), [undefined, "2", "2"]);
});

test("a correction is applied by code points", () => {
  const text = "😀 is 2. Good 🚀.";
  assert.equal(corrected(text, { startOffset: 2, endOffset: 7, text: "is 1." }), "😀 is 1. Good 🚀.");
  assert.equal(corrected(text, { endOffset: 8 }), "Good 🚀.");
  assert.equal(corrected("🚀!", { startOffset: 1, endOffset: 1, text: "🚀" }), "🚀🚀!");
});

test("a job is watched on from what came last", async () => {
  const running = { eventId: "1", job: { jobId: "j", state: "JOB_STATE_RUNNING" } };
  const done = { eventId: "2", job: { jobId: "j", state: "JOB_STATE_DONE" } };
  replies = [{ events: [running] }, { events: [done] }];
  assert.equal((await collected(client.watchJob({ jobId: "j" }))).length, 2);
  assert.deepEqual(requests.map(({ headers }) => headers["last-event-id"]), [undefined, "1"]);
});

test("a job is watched until it has ended though its stream breaks off", async () => {
  const running = { job: { jobId: "j", state: "JOB_STATE_RUNNING" } };
  const done = { job: { jobId: "j", state: "JOB_STATE_DONE" } };
  replies = [{ breakOff: `data: ${JSON.stringify(running)}\n\n` }, { json: running }, { events: [done] }];
  const states = (await collected(client.watchJob({ jobId: "j" }))).map((change) => change.job.state);
  assert.deepEqual(states, ["JOB_STATE_RUNNING", "JOB_STATE_RUNNING", "JOB_STATE_DONE"]);
});

test("every page of a list is fetched, with the fields of its path and query", async () => {
  replies = [
    { json: { documents: [{ uri: "a" }], nextPageToken: "2" } },
    { json: { documents: [{ uri: "b" }], nextPageToken: "" } },
  ];
  const uris = (await collected(client.all("listDocuments", { collectionId: "a/b" }))).map((one) => one.uri);
  assert.deepEqual(uris, ["a", "b"]);
  assert.deepEqual(
    requests.map((one) => one.url),
    [
      "/api/collections/a%2Fb/documents?pageSize=500",
      "/api/collections/a%2Fb/documents?pageSize=500&pageToken=2",
    ],
  );
  assert.equal(requests[0].headers.authorization, "Bearer a-key");
});

test("an upload is sent as it is, again where it can be", async () => {
  replies = [DOWN, { json: { job: {} } }];
  const request = { collectionId: "docs", uri: "a.txt", metadata: { year: 2024 }, requestId: "r", mimeType: "text/plain" };
  await client.uploadDocument(request, "content");
  assert.deepEqual(
    requests.map((one) => [one.url, one.body, one.headers["content-type"]]),
    Array(2).fill([
      "/api/collections/docs/documents:upload?uri=a.txt&requestId=r&metadataJson=%7B%22year%22%3A2024%7D",
      "content",
      "text/plain",
    ]),
  );
  replies = [DOWN];
  await assert.rejects(client.uploadDocument(request, new Blob(["content"]).stream()), ApiError);
  assert.equal(requests.length, 3);
});

test("a download is the response itself", async () => {
  replies = [DOWN, { json: { any: "thing" } }];
  const response = await client.downloadDocument({ collectionId: "docs", documentId: "d" });
  assert.deepEqual(await response.json(), { any: "thing" });
  assert.equal(requests.at(-1).url, "/api/collections/docs/documents/d:download");
});

test("a page's picture is the response itself", async () => {
  replies = [{ text: "a PNG" }];
  const response = await client.getDocumentPage({ collectionId: "docs", documentId: "d", page: 3 });
  assert.equal(await response.text(), "a PNG");
  assert.equal(requests.at(-1).url, "/api/collections/docs/documents/d/pages/3");
});

test("fetch is called as browsers want it: as a function, and going on for a deletion when the page is left", async () => {
  const seen = [];
  async function fetch(url, { method, keepalive }) {
    assert.equal(this, undefined);
    seen.push([method, keepalive]);
    return new Response("{}");
  }
  const inPage = new GroundlineClient("http://gateway", "a-key", { fetch });
  await inPage.search({ query: "x" });
  await inPage.deleteThread({ threadId: "t" });
  assert.deepEqual(seen, [["POST", false], ["DELETE", true]]);
});

test("request ids are visible ASCII, and never the same", () => {
  const ids = Array.from({ length: 100 }, newRequestId);
  assert.equal(new Set(ids).size, 100);
  for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/);
});

test("events do not depend on how the bytes are split, nor on what ends a line", async () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const lines = [": hello", "event: x", "id: 7", "data: ü", "data:b", "", "event", "", "data: c", "", "data: cut"];
    const bytes = new TextEncoder().encode("\ufeff" + lines.join(end));
    for (const size of [1, 2, 3, bytes.length]) {
      const chunks = [];
      for (let start = 0; start < bytes.length; start += size) chunks.push(bytes.slice(start, start + size));
      assert.deepEqual(await collected(events(chunks)), [
        { data: "ü\nb", event: "x", lastEventId: "7" },
        { data: "c", event: "message", lastEventId: "7" },
      ]);
    }
  }
});
