import { GroundlineClient } from "groundline-client";

const KEY = "groundline.key";

/**
 * Return the tab's API key, or "" if it has none.
 *
 * A key in the address's fragment never reaches a server; it leaves the address bar and the history entry at once. It
 * does not replace the tab's: a link of somebody else would have the user ask with that one's key.
 */
export function takeKey(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    if (!sessionStorage.getItem(KEY)) sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

/** Keep the key until the tab closes. */
export function keepKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

export function forgetKey(): void {
  sessionStorage.removeItem(KEY);
}

/** Return whether a header can hold the key: visible ASCII only. */
export function isKey(text: string): boolean {
  return /^[!-~]+$/.test(text);
}

/** Return the address of the gateway that served this page. */
export function gatewayAddress(): string {
  return new URL(".", location.href.replace(/[?#].*$/s, "")).href;
}

export function clientFor(key: string): GroundlineClient {
  return new GroundlineClient(gatewayAddress(), key);
}
