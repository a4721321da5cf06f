// Against the gateway that GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY name, with the examples in `examples`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, GroundlineClient } from "../src/client.js";

const client = new GroundlineClient(process.env.GROUNDLINE_GATEWAY_URL, process.env.GROUNDLINE_API_KEY);
const QUESTION = "How many days of leave do I have?";

test("every wrong field of a request is named", async () => {
  const options = { rerank: { topK: 1000 }, retrieval: { efSearch: 0 } };
  await assert.rejects(client.search({ query: QUESTION, options }), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.reason, "INVALID_REQUEST");
    assert.equal(error.violations.length, 2);
    return true;
  });
});

test("a chat tells what happens, and its answer is cited", async () => {
  let sources = [];
  let answer = "";
  let completed;
  for await (const event of client.chat({ query: QUESTION, collectionIds: ["examples"] })) {
    if (event.sources) sources = event.sources.sources;
    if (event.delta) answer += event.delta.text;
    completed = event.completed;
  }
  assert.equal(completed.finishReason, "FINISH_REASON_STOP");
  assert.ok(completed.citations.length > 0);
  for (const citation of completed.citations) {
    assert.ok(answer.includes(`[${citation.sourceNumber}]`));
    assert.equal(sources[citation.sourceNumber - 1].chunkId, citation.chunkId);
  }
});

test("an answer with a request id is given once", async () => {
  const request = { query: QUESTION, collectionIds: ["examples"], requestId: "typescript-1" };
  const [first, again] = [await client.answer(request), await client.answer(request)];
  assert.equal(first.messageId, again.messageId);
});

test("a collection from its creation to its end", async () => {
  const collectionId = "typescript-docs";
  await client.createCollection({ collectionId, settings: { lexical: { language: "german" } } });
  const documents = [{ uri: "turm.md", text: "Der Turm ist 93 Meter hoch." }];
  const { job } = await client.ingestDocuments({ collectionId, documents });
  const upload = await client.uploadDocument(
    { collectionId, uri: "tor.txt", metadata: { year: 2025 }, mimeType: "text/plain" },
    new Blob(["Das Tor ist 12 Meter breit."]).stream(),
  );
  for (const { jobId } of [job, upload.job]) {
    let last;
    for await (const change of client.watchJob({ jobId })) last = change.job;
    assert.equal(last.state, "JOB_STATE_DONE");
  }
  const uris = [];
  for await (const document of client.all("listDocuments", { collectionId })) uris.push(document.uri);
  assert.deepEqual(uris, ["tor.txt", "turm.md"]);
  const { passages } = await client.search({ query: "Wie hoch ist der Turm?", collectionIds: [collectionId] });
  assert.equal(passages[0].chunk.uri, "turm.md");
  assert.equal((await client.deleteDocuments({ collectionId, filter: { year: 2025 } })).deletedCount, 1);
  await client.deleteCollection({ collectionId });
  await assert.rejects(client.getCollection({ collectionId }), { reason: "COLLECTION_NOT_FOUND" });
});
