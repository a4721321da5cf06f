// With the real AI SDK, against the gateway that GROUNDLINE_GATEWAY_URL and GROUNDLINE_API_KEY name, where `docs` says
// how high the tower is.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createUIMessageStreamResponse, DefaultChatTransport, readUIMessageStream } from "ai";
import { chatRequest, toUIMessageStream } from "../src/ai-sdk.js";
import { GroundlineClient } from "../src/client.js";

const client = new GroundlineClient(process.env.GROUNDLINE_GATEWAY_URL, process.env.GROUNDLINE_API_KEY);
const said = (role, text) => ({ id: text, role, parts: [{ type: "text", text }] });

// What an application's server does with a request of useChat.
async function route(_, { body, signal }) {
  const request = { ...chatRequest(JSON.parse(body).messages), collectionIds: ["docs"], store: false };
  return createUIMessageStreamResponse({ stream: toUIMessageStream(client.chat(request, { signal })) });
}

// What useChat does with the answer: the last state of the message, and what the page is told besides.
async function answer(messages, fetch = route) {
  const transport = new DefaultChatTransport({ api: "/chat", fetch });
  const stream = await transport.sendMessages({ chatId: "1", messages, trigger: "submit-message" });
  const errors = [];
  let last;
  for await (const state of readUIMessageStream({ stream, onError: (error) => errors.push(error.message) })) {
    last = state;
  }
  return { message: last, errors };
}

test("a refusal is the stream's error", async () => {
  const { errors } = await answer([said("user", " ")]);
  assert.match(errors[0], /query/);
});

test("a conversation whose last message is not the user's has no question", () => {
  assert.throws(() => chatRequest([said("user", "Hello"), said("assistant", "Hello")]), TypeError);
  assert.throws(() => chatRequest([]), TypeError);
});

test("a file is refused", () => {
  const file = { type: "file", mediaType: "image/png", url: "data:image/png;base64,AA==" };
  assert.throws(() => chatRequest([{ id: "1", role: "user", parts: [file] }]), /only text/);
});

test("an answer becomes a message with sources, citations and metadata", async () => {
  const { message, errors } = await answer([said("user", "How high is the tower?")]);
  assert.deepEqual(errors, []);
  assert.equal(message.role, "assistant");
  const text = message.parts.filter(({ type }) => type === "text");
  assert.equal(text.length, 1);
  assert.match(text[0].text, /93 metres/);
  const sources = message.parts.filter(({ type }) => type === "source-document");
  const [citation] = message.metadata.citations;
  const cited = sources.find(({ providerMetadata }) => providerMetadata.groundline.number === citation.sourceNumber);
  assert.equal(cited.filename, "tower.md");
  assert.equal(cited.sourceId, citation.chunkId);
  assert.equal(message.metadata.validation.grounded, true);
});

test("a follow-up is understood from the messages before", async () => {
  const { message } = await answer([
    said("user", "How high is the tower?"),
    said("assistant", "It is 93 metres high. [1]"),
    said("user", "And when was it built?"),
  ]);
  assert.match(message.parts.find(({ type }) => type === "text").text, /1912/);
});

test("a web page is a source with its address", async () => {
  async function* events() {
    yield { started: { messageId: "m", threadId: "", traceId: "" } };
    yield { sources: { sources: [{ number: 1, chunkId: "7", uri: "https://example.org/a", title: "" }] } };
    yield { delta: { text: "Yes. [1]" } };
    yield { completed: { finishReason: "FINISH_REASON_MAX_TOKENS", citations: [] } };
  }
  const chunks = [];
  for await (const chunk of toUIMessageStream(events())) chunks.push(chunk);
  const page = chunks.find(({ type }) => type === "source-url");
  assert.deepEqual([page.url, page.title, page.sourceId], ["https://example.org/a", "https://example.org/a", "7"]);
  assert.equal(chunks.at(-1).finishReason, "length");
});

test("text that stays is asked for, and a sentence that is not supported is told of", async () => {
  assert.deepEqual(chatRequest([said("user", "How high?")]).options, { appendOnly: true });
  const unsupported = { startOffset: 0, endOffset: 4, issue: { reason: "UNSUPPORTED_SENTENCE", message: "" } };
  async function* events() {
    yield { started: { messageId: "m", threadId: "", traceId: "" } };
    yield { delta: { text: "Yes. [1]" } };
    yield { unsupported };
    yield { completed: { finishReason: "FINISH_REASON_STOP" } };
  }
  const chunks = [];
  for await (const chunk of toUIMessageStream(events())) chunks.push(chunk);
  assert.deepEqual(chunks.find(({ type }) => type === "data-unsupported").data, unsupported);
});

test("cancelling the stream closes the chat", async () => {
  let closed = false;
  async function* events() {
    try {
      yield { started: { messageId: "m", threadId: "", traceId: "" } };
      for (;;) yield { delta: { text: "and " } };
    } finally {
      closed = true;
    }
  }
  const reader = toUIMessageStream(events()).getReader();
  await reader.read();
  await reader.cancel();
  await new Promise(setImmediate);
  assert.ok(closed);
});
