/** Where the page keeps what it has to know when the issuer sends the reader back. No token is ever there. */
const UNDER_WAY = "groundline.sign-in";
/** Says that the reader has signed in at the issuer in this tab, and not signed out. */
const WAS_SIGNED_IN = "groundline.signed-in";

/** A way to the issuer and back. */
export interface Journey {
  state: string;
  nonce: string;
  verifier: string;
  /** Whether the issuer is not to ask anything. */
  isSilent: boolean;
  /** The view that was shown. */
  hash: string;
  /** A question that was typed and not asked. */
  draft: string;
}

export function begun(journey: Journey): void {
  sessionStorage.setItem(UNDER_WAY, JSON.stringify(journey));
}

/** Return the journey that is under way, which ends; undefined without one. */
export function ended(): Journey | undefined {
  const kept = sessionStorage.getItem(UNDER_WAY);
  sessionStorage.removeItem(UNDER_WAY);
  return kept ? (JSON.parse(kept) as Journey) : undefined;
}

/** Take what the issuer answers out of the page's address and its history; undefined without an answer. */
export function takeAnswer(): URLSearchParams | undefined {
  for (const text of [location.hash, location.search]) {
    const given = new URLSearchParams(text.slice(1));
    if (given.has("state") && (given.has("code") || given.has("error"))) {
      history.replaceState(null, "", location.pathname);
      return given;
    }
  }
  return undefined;
}

export function keepSignedIn(isSignedIn: boolean): void {
  if (isSignedIn) sessionStorage.setItem(WAS_SIGNED_IN, "yes");
  else sessionStorage.removeItem(WAS_SIGNED_IN);
}

export function wasSignedIn(): boolean {
  return sessionStorage.getItem(WAS_SIGNED_IN) !== null;
}
