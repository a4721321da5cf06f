import type * as models from "./models.js";

type Json = null | string | number | boolean | Json[] | { [name: string]: Json };
type ProviderMetadata = { groundline: { [name: string]: Json } };

/** What toUIMessageStream gives of the AI SDK's UIMessageChunk. */
export type ChatChunk =
  | { type: "start"; messageId: string; messageMetadata: Pick<models.ChatStarted, "threadId" | "traceId"> }
  | { type: "start-step" }
  | { type: "data-status"; data: models.ChatStatus; transient: true }
  | { type: "source-url"; sourceId: string; url: string; title: string; providerMetadata: ProviderMetadata }
  | {
      type: "source-document";
      sourceId: string;
      mediaType: string;
      title: string;
      filename: string;
      providerMetadata: ProviderMetadata;
    }
  | { type: "text-start"; id: string }
  | { type: "text-delta"; id: string; delta: string }
  | { type: "text-end"; id: string }
  | { type: "data-unsupported"; data: models.UnsupportedSentence }
  | { type: "data-correction"; data: models.AnswerCorrection }
  | { type: "finish-step" }
  | {
      type: "finish";
      finishReason: "stop" | "length" | "content-filter";
      messageMetadata: Omit<models.ChatCompleted, "finishReason">;
    }
  | { type: "error"; errorText: string };

/** A UIMessage, as far as it is read. */
export interface ConversationMessage {
  role: "system" | "user" | "assistant";
  parts: { type: string; text?: string }[];
}

/**
 * The question and the history of a conversation of UI messages, of which the last must be the user's. Throws
 * TypeError for another one, and for files. What the system says is left out: set options.generation.systemPrompt.
 * `options.appendOnly` is set, since the SDK's text only ever grows: keep it beside options of your own.
 */
export declare function chatRequest(messages: readonly ConversationMessage[]): {
  query: string;
  chatHistory: { role: "USER" | "ASSISTANT"; content: string }[];
  options: { appendOnly: true };
};

/**
 * The events of a chat as the AI SDK's UI message stream, for its createUIMessageStreamResponse.
 *
 * Sources come as `source-url` or `source-document` parts whose provider metadata holds the source with its number;
 * citations, validation and usage as metadata of the message; stages as transient `data-status`; sentences that their
 * sources do not support as `data-unsupported`; a failure as `error`. A correction, which a request with
 * `options.appendOnly` never gets, is left to the page, as `data-correction`. Cancelling the stream ends the chat with
 * its next event; the request's signal, given to chat(), ends it at once.
 */
export declare function toUIMessageStream(events: AsyncIterable<models.ChatResponse>): ReadableStream<ChatChunk>;
