import { ApiError, GatewayError, ProtocolError, UnreachableError } from "./errors.js";
import { rpcs } from "./rpcs.js";
import { events } from "./sse.js";

export { ApiError, GatewayError, ProtocolError, UnreachableError };

const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 100;
// Who is asked to wait longer, such as for tomorrow's quota, is told so at once.
const LONGEST_PAUSE_MS = 60_000;
// Between two looks at a job whose stream of changes has ended too early.
const LOOK_AGAIN_MS = 1_000;
const PAGE_SIZE = 500;
// How often a chat that broke off is gone on with: it may be answered anew, and paid for again.
const RESUMPTIONS = 2;
const RUNNING = ["JOB_STATE_QUEUED", "JOB_STATE_RUNNING"];

/** The text of an answer so far with a correction applied; see client.d.ts. */
export function corrected(text, { startOffset = 0, endOffset = 0, text: replacement = "" }) {
  const characters = [...text];
  characters.splice(startOffset, endOffset - startOffset, replacement);
  return characters.join("");
}

/** A random request_id; see client.d.ts. */
export function newRequestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One gateway with one key or token. Methods and their requests are those of the contract; see client.d.ts. */
export class GroundlineClient {
  #gateway;
  #apiKey;
  #fetch;

  constructor(gateway, apiKey, { fetch = globalThis.fetch } = {}) {
    this.#gateway = gateway.replace(/\/$/, "");
    this.#apiKey = apiKey;
    this.#fetch = fetch;
  }

  /** The events of a chat, ending with `completed`; a failure is thrown as ApiError. See client.d.ts. */
  async *chat(request, options = {}) {
    let after = "";
    for (let left = request.requestId ? RESUMPTIONS : 0; ; left--) {
      try {
        for await (const { lastEventId, value } of this.#stream(rpcs.chat, request, options, after)) {
          after = lastEventId;
          if (value.error) throw ApiError.fromEvent(value.error);
          yield value;
          if (value.completed) return;
        }
        throw new UnreachableError("the answer broke off: the connection ended before it was complete");
      } catch (error) {
        if (!(error instanceof UnreachableError) || left === 0) throw error;
      }
      await pause(FIRST_PAUSE_MS, options.signal);
    }
  }

  /** Claims of a text with their verdicts, ending with `completed`; a failure is thrown as ApiError. */
  async *verify(request, options = {}) {
    for await (const { value } of this.#stream(rpcs.verify, request, options, "")) {
      if (value.error) throw ApiError.fromEvent(value.error);
      yield value;
      if (value.completed) return;
    }
    throw new UnreachableError("the verification broke off: the connection ended before it was complete");
  }

  /** A job and its changed items as it changes, until it has ended, however long that takes. */
  async *watchJob(request, options = {}) {
    let after = "";
    for (;;) {
      const before = after;
      try {
        for await (const { lastEventId, value } of this.#stream(rpcs.watchJob, request, options, after)) {
          after = lastEventId;
          yield value;
          if (!RUNNING.includes(value.job?.state)) return;
        }
      } catch (error) {
        // A stream may break off, as it does when the gateway is replaced; whether there is one at all is
        // told by the call that follows.
        if (!(error instanceof UnreachableError)) throw error;
      }
      if (after !== before) {
        // The next one begins with what changed behind the last event.
        await pause(FIRST_PAUSE_MS, options.signal);
        continue;
      }
      const { job } = await this.getJob(request, options);
      yield { job, items: [] };
      if (!RUNNING.includes(job?.state)) return;
      await pause(LOOK_AGAIN_MS, options.signal);
    }
  }

  /** Send one document of any size as it is. `content` is what fetch takes as a body. */
  async uploadDocument(request, content, options = {}) {
    const repeatable = !(content instanceof ReadableStream);
    const headers = { "content-type": request.mimeType || "application/octet-stream" };
    const { mimeType: _, metadata, ...fields } = request;
    if (metadata !== undefined) fields.metadataJson = JSON.stringify(metadata);
    const upload = { body: content, headers, repeatable };
    const response = await this.#send(rpcs.uploadDocument, fields, options, upload);
    return await parsed(response);
  }

  /** A document as it was handed in; the response's body is its content. */
  async downloadDocument(request, options = {}) {
    return await this.#send(rpcs.downloadDocument, request, options);
  }

  /** A picture of a page of a document; the response's body is a PNG. */
  async getDocumentPage(request, options = {}) {
    return await this.#send(rpcs.getDocumentPage, request, options);
  }

  /** Signed evidence of an answer, or of all answers of a thread; the response's body is canonical JSON. */
  async getEvidence(request, options = {}) {
    return await this.#send(rpcs.getEvidence, request, options);
  }

  /** A signed certificate of an erasure; the response's body is canonical JSON. */
  async getErasureCertificate(request, options = {}) {
    return await this.#send(rpcs.getErasureCertificate, request, options);
  }

  /** Every entry of a list, page after page: `client.all("listDocuments", { collectionId })`. */
  async *all(method, request = {}, options = {}) {
    let pageToken = "";
    do {
      const page = await this[method]({ pageSize: PAGE_SIZE, ...request, pageToken }, options);
      yield* page[rpcs[method].entries] ?? [];
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** @internal */
  async call(rpc, request, options) {
    return await parsed(await this.#send(rpc, request, options));
  }

  // Events with their ids; those behind `after`, where the method can go on behind it.
  async *#stream(rpc, request, options, after) {
    const response = await this.#send(rpc, request, options, undefined, after);
    const contentType = response.headers.get("content-type") ?? "";
    if (!contentType.startsWith("text/event-stream")) {
      await response.body?.cancel();
      throw new ProtocolError(`${this.#gateway} answers ${contentType || "nothing"}, not events`);
    }
    try {
      for await (const { data, lastEventId } of events(response.body)) yield { lastEventId, value: json(data) };
    } catch (error) {
      if (error instanceof GatewayError || options.signal?.aborted) throw error;
      throw new UnreachableError(`the connection to ${this.#gateway} broke off`, { cause: error });
    }
  }

  async #send(rpc, request = {}, { signal } = {}, upload, after) {
    const fields = { ...request };
    // What makes a request idempotent is there, so that it may be repeated.
    if (rpc.takesRequestId && rpc.isIdempotent) fields.requestId ||= newRequestId();
    const repeatable = (rpc.isIdempotent || Boolean(fields.requestId)) && (upload?.repeatable ?? true);
    const path = rpc.path.replace(/\{(\w+)\}/g, (_, name) => {
      const value = fields[name];
      delete fields[name];
      return encodeURIComponent(value ?? "");
    });
    const url = new URL(this.#gateway + path);
    if (!rpc.hasBody) {
      for (const [name, value] of Object.entries(fields)) {
        for (const one of [value].flat()) if (one !== undefined && one !== "") url.searchParams.append(name, one);
      }
    }
    const headers = { authorization: `Bearer ${this.#apiKey}`, ...upload?.headers };
    if (rpc.hasBody) headers["content-type"] = "application/json";
    if (after) headers["last-event-id"] = after;
    const body = rpc.hasBody ? JSON.stringify(fields) : upload?.body;
    // A browser's fetch refuses to be a method. A deletion outlives the page that asked for it.
    const fetch = this.#fetch;
    const init = { method: rpc.verb, headers, body, signal, duplex: "half", keepalive: rpc.verb === "DELETE" };
    for (let attempt = 1; ; attempt++) {
      let failure;
      let wait = FIRST_PAUSE_MS * 2 ** (attempt - 1);
      try {
        const response = await fetch(url, init);
        if (response.ok) return response;
        const retryAfter = response.headers.get("retry-after");
        failure = ApiError.fromResponse(response.status, await response.text(), retryAfter);
        if (!failure.retryable) throw failure;
        wait = failure.retryAfterMs ?? wait;
      } catch (error) {
        if (error instanceof GatewayError || signal?.aborted) throw error;
        failure = new UnreachableError(`no connection to ${this.#gateway}`, { cause: error });
      }
      if (!repeatable || attempt === ATTEMPTS || wait > LONGEST_PAUSE_MS) throw failure;
      await pause(wait, signal);
    }
  }
}

// One method for each RPC that has none above.
for (const [name, rpc] of Object.entries(rpcs)) {
  if (!(name in GroundlineClient.prototype)) {
    Object.defineProperty(GroundlineClient.prototype, name, {
      value: function (request, options) {
        return this.call(rpc, request, options);
      },
    });
  }
}

function json(text) {
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
  } catch {
    // said below
  }
  throw new ProtocolError("the answer is not a JSON object: is this the address of a Groundline gateway?");
}

async function parsed(response) {
  return json(await response.text());
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", abort, { once: true });
    function done() {
      signal?.removeEventListener("abort", abort);
      resolve();
    }
    function abort() {
      clearTimeout(timer);
      reject(signal.reason);
    }
  });
}
