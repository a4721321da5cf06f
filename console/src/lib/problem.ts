import { ApiError, UnreachableError } from "groundline-client";
import { Changing } from "./changing";
import { texts } from "../texts";

/** What went wrong, to show. */
export interface Problem {
  message: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** Whether the key is not, or no longer, valid. */
  signedOut: boolean;
  /** Whether the key is valid, but not for this. */
  isForbidden?: boolean;
}

/** Changes whenever the gateway refuses who asks, whichever view finds that out. */
export const refusals = new Changing();

export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) {
    if (error.httpStatus === 401) refusals.changed();
    const wrong = error.violations.map(({ field, description }) => `${field}: ${description}`).join("; ");
    const id = error.errorId ? ` (${error.errorId})` : "";
    return {
      message: (wrong || error.message || texts.failed(error.httpStatus ?? 0)) + id,
      retryable: error.retryable || error.reason === "REQUEST_UNDER_WAY" || (error.httpStatus ?? 0) >= 500 || error.httpStatus === 429,
      signedOut: error.httpStatus === 401,
      isForbidden: error.httpStatus === 403,
    };
  }
  if (error instanceof UnreachableError) return { message: texts.unreachable, retryable: true, signedOut: false };
  return { message: error instanceof Error ? error.message : String(error), retryable: false, signedOut: false };
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
