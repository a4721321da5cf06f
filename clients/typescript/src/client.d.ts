import type * as models from "./models.js";
import type { Lists, Methods } from "./rpcs.js";

export type * from "./models.js";

export interface ClientOptions {
  /** Instead of the platform's own. */
  fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the call, its retries included; AbortSignal.timeout(ms) is a deadline. */
  signal?: AbortSignal;
}

/** A message as it is handed in: whatever is left out has its default. */
export type Input<T> = T extends (infer E)[]
  ? Input<E>[]
  : T extends models.JsonObject
    ? T
    : T extends object
      ? { [K in keyof T]?: Input<T[K]> }
      : T;

/** The text of an answer so far with a correction applied, whose offsets count Unicode code points. */
export declare function corrected(text: string, correction: Input<models.AnswerCorrection>): string;

/** A random request_id, also in pages that came over plain http, where crypto.randomUUID is not. */
export declare function newRequestId(): string;

/**
 * One gateway with one key or token.
 *
 * Methods are those of the contract, with requests and responses in their JSON form. A request that is idempotent by
 * the contract, or has a requestId, is tried again when the connection fails, when the gateway answers 503, or when it
 * says when to come again. Every method throws UnreachableError, ApiError or ProtocolError.
 */
export declare class GroundlineClient {
  constructor(gateway: string, apiKey: string, options?: ClientOptions);

  /**
   * The events of a chat, ending with `completed`; a failure is thrown as ApiError. Leaving the loop cancels. A
   * `correction` changes the text of earlier deltas; with `options.appendOnly` none comes.
   *
   * A stream that ends too early is thrown as UnreachableError, or with a `requestId` gone on with, up to twice: where
   * the answer was complete behind what came last, otherwise from the beginning, and then another `started` makes void
   * what came before.
   */
  chat(request: Input<models.ChatRequest>, options?: CallOptions): AsyncGenerator<models.ChatResponse, void, void>;

  /**
   * Claims of a text, each with its verdict as it is decided, ending with `completed`; a failure is thrown as ApiError,
   * a stream that ends too early as UnreachableError. Leaving the loop cancels.
   */
  verify(request: Input<models.VerifyRequest>, options?: CallOptions): AsyncGenerator<models.VerifyResponse, void, void>;

  /** A job and its changed items as it changes, until it has ended, however long that takes. */
  watchJob(
    request: Input<models.WatchJobRequest>,
    options?: CallOptions,
  ): AsyncGenerator<models.WatchJobResponse, void, void>;

  /** Send one document of any size as it is. A stream is sent once; anything else is tried again. */
  uploadDocument(
    request: {
      collectionId: string;
      uri?: string;
      title?: string;
      metadata?: models.JsonObject;
      allowedPrincipals?: string[];
      requestId?: string;
      mimeType?: string;
    },
    content: BodyInit,
    options?: CallOptions,
  ): Promise<models.UploadDocumentResponse>;

  /** A document as it was handed in; the response's body is its content, and its etag the SHA-256 of that. */
  downloadDocument(request: Input<models.DownloadDocumentRequest>, options?: CallOptions): Promise<Response>;

  /** A picture of a page of a document; the response's body is a PNG. */
  getDocumentPage(request: Input<models.GetDocumentPageRequest>, options?: CallOptions): Promise<Response>;

  /** Signed evidence of an answer, or of all answers of a thread; the response's body is canonical JSON. */
  getEvidence(request: Input<models.GetEvidenceRequest>, options?: CallOptions): Promise<Response>;

  /** A signed certificate of an erasure; the response's body is canonical JSON. */
  getErasureCertificate(request: Input<models.GetErasureCertificateRequest>, options?: CallOptions): Promise<Response>;

  /** Every entry of a list, page after page: `client.all("listDocuments", { collectionId })`. */
  all<M extends keyof Lists>(
    method: M,
    request?: Input<Lists[M]["request"]>,
    options?: CallOptions,
  ): AsyncGenerator<Lists[M]["entry"], void, void>;
}

export interface GroundlineClient extends Methods {}

/** Base of all errors of this package. */
export declare class GatewayError extends Error {}

/** No connection to the gateway, or one that broke off. */
export declare class UnreachableError extends GatewayError {}

/** An answer that no gateway gives; most likely the address is another server's. */
export declare class ProtocolError extends GatewayError {}

/** A refusal of the gateway or of a service behind it. */
export declare class ApiError extends GatewayError {
  /** google.rpc.Code number; 0 where the answer held none. */
  readonly code: number;
  /** Name of an ErrorReason; empty where the answer held none. */
  readonly reason: string;
  readonly violations: { field: string; description: string }[];
  /** Identifies an internal error in logs and traces. */
  readonly errorId: string;
  readonly retryAfterMs: number | undefined;
  readonly httpStatus: number | undefined;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
}
