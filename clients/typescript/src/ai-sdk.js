const HISTORY_MESSAGES = 100;
// Finish reasons of an answer in the words of the AI SDK; the others are a stop.
const FINISH_REASONS = { FINISH_REASON_MAX_TOKENS: "length", FINISH_REASON_SAFETY: "content-filter" };
const SPEAKERS = { user: "USER", assistant: "ASSISTANT" };

/** The question and the history of a conversation of UI messages; see ai-sdk.d.ts. */
export function chatRequest(messages) {
  const said = messages.filter(({ role }) => role in SPEAKERS);
  const question = said.at(-1);
  if (question?.role !== "user") throw new TypeError("the last message must be the user's");
  const chatHistory = said
    .slice(0, -1)
    .map((message) => ({ role: SPEAKERS[message.role], content: text(message) }))
    .filter(({ content }) => content.trim() !== "")
    .slice(-HISTORY_MESSAGES);
  // The SDK's text only ever grows.
  return { query: text(question), chatHistory, options: { appendOnly: true } };
}

/** The events of a chat as the AI SDK's UI message stream; see ai-sdk.d.ts. */
export function toUIMessageStream(events) {
  const chunks = uiMessageChunks(events);
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel() {
      // Not awaited, since it ends the chat with the next event only; a signal given to chat() does at once.
      chunks.return();
    },
  });
}

async function* uiMessageChunks(events) {
  let messageId;
  let isWriting = false;
  try {
    for await (const event of events) {
      if (event.started) {
        ({ messageId } = event.started);
        const { threadId, traceId } = event.started;
        yield { type: "start", messageId, messageMetadata: { threadId, traceId } };
        yield { type: "start-step" };
      } else if (event.status) {
        yield { type: "data-status", data: event.status, transient: true };
      } else if (event.sources) {
        for (const source of event.sources.sources ?? []) yield sourceChunk(source);
      } else if (event.delta) {
        if (!isWriting) yield { type: "text-start", id: messageId };
        isWriting = true;
        yield { type: "text-delta", id: messageId, delta: event.delta.text };
      } else if (event.unsupported) {
        yield { type: "data-unsupported", data: event.unsupported };
      } else if (event.correction) {
        yield { type: "data-correction", data: event.correction };
      } else if (event.completed) {
        const { finishReason, ...messageMetadata } = event.completed;
        if (isWriting) yield { type: "text-end", id: messageId };
        yield { type: "finish-step" };
        yield { type: "finish", finishReason: FINISH_REASONS[finishReason] ?? "stop", messageMetadata };
      }
    }
  } catch (error) {
    // The stream's own word for it: the page shows the text.
    yield { type: "error", errorText: error.message };
  }
}

function sourceChunk(source) {
  const { uri, title, chunkId } = source;
  const shared = { sourceId: chunkId, title: title || uri, providerMetadata: { groundline: source } };
  if (/^https?:/i.test(uri)) return { type: "source-url", url: uri, ...shared };
  // What is cited of a document is text, whatever its file is.
  return { type: "source-document", mediaType: "text/plain", filename: uri, ...shared };
}

function text(message) {
  const other = message.parts.find(({ type }) => type === "file");
  if (other) throw new TypeError("only text is understood, not a part of type file");
  return message.parts
    .filter(({ type }) => type === "text")
    .map((part) => part.text)
    .join("");
}
