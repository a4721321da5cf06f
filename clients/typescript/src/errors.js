/** Base of all errors of this package. */
export class GatewayError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No connection to the gateway, or one that broke off. */
export class UnreachableError extends GatewayError {}

/** An answer that no gateway gives; most likely the address is another server's. */
export class ProtocolError extends GatewayError {}

/** A refusal of the gateway or of a service behind it, with what google.rpc.Status says. */
export class ApiError extends GatewayError {
  constructor(message, fields = {}) {
    super(message);
    this.code = fields.code ?? 0;
    this.reason = fields.reason ?? "";
    this.violations = fields.violations ?? [];
    this.errorId = fields.errorId ?? "";
    this.retryAfterMs = fields.retryAfterMs;
    this.httpStatus = fields.httpStatus;
    this.retryable = fields.retryable ?? false;
  }

  /** From an HTTP status, the body beside it (a status in JSON, or anything) and the header Retry-After. */
  static fromResponse(httpStatus, body, retryAfter) {
    let status;
    try {
      status = JSON.parse(body);
    } catch {
      status = undefined;
    }
    const details = Array.isArray(status?.details) ? status.details : [];
    const detail = (name) => details.find((one) => one?.["@type"]?.endsWith?.(`/google.rpc.${name}`)) ?? {};
    const retryAfterMs = milliseconds(detail("RetryInfo").retryDelay) ?? headerMilliseconds(retryAfter);
    return new ApiError(status?.message || `HTTP ${httpStatus}: ${excerpt(body)}`, {
      code: status?.code,
      reason: detail("ErrorInfo").reason,
      violations: detail("BadRequest").fieldViolations,
      errorId: detail("ErrorInfo").metadata?.error_id,
      retryAfterMs,
      httpStatus,
      // 429 without a time to wait is no rate limit: the request itself is too much.
      retryable: httpStatus === 503 || retryAfterMs !== undefined,
    });
  }

  /** From the `error` event that ends a chat. */
  static fromEvent(event) {
    return new ApiError(event.message || "the request failed", event);
  }
}

// Characters of a body that is not a status; it may be a whole HTML page of some proxy.
const EXCERPT_LENGTH = 200;

function excerpt(body) {
  return body.split(/\s+/).join(" ").trim().slice(0, EXCERPT_LENGTH);
}

function milliseconds(duration) {
  const match = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(duration ?? "");
  return match ? Number(match[1]) * 1000 : undefined;
}

function headerMilliseconds(header) {
  if (!header) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const when = Date.parse(header);
  return Number.isNaN(when) ? undefined : Math.max(0, when - Date.now());
}
