import * as oauth from "oauth4webapi";
import type { Issuer } from "../lib/configuration";
import { gatewayAddress } from "../lib/session";
import { texts } from "../texts";
import { begun, type Journey } from "./journey";

/** Time before a token's end from which on it is renewed, in milliseconds: longer than a request is on its way. */
const AHEAD_MS = 30_000;
/** Maximum time to have a token revoked before the reader goes on, in milliseconds. */
const REVOCATION_MS = 2_000;

/** What an issuer answers instead of a token; the message is for the reader. */
export class SignInError extends Error {}

/** An issuer whose endpoints are known. */
export class Provider {
  readonly #server: oauth.AuthorizationServer;
  readonly #client: oauth.Client;
  readonly #known: Issuer;

  private constructor(server: oauth.AuthorizationServer, known: Issuer) {
    this.#server = server;
    this.#client = { client_id: known.clientId };
    this.#known = known;
  }

  /** Ask the issuer for its endpoints. Rejects where they cannot be had. */
  static async of(known: Issuer): Promise<Provider> {
    const issuer = new URL(known.issuer);
    const answer = await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...options(issuer) });
    const server = await oauth.processDiscoveryResponse(issuer, answer);
    if (!mayCall(known, server.token_endpoint)) throw new SignInError(texts.issuerElsewhere);
    return new Provider(server, known);
  }

  /** Send the reader to the issuer, which sends them back. */
  async go({ isSilent, hash, draft }: Pick<Journey, "isSilent" | "hash" | "draft">): Promise<void> {
    const [state, nonce, verifier] = [oauth.generateRandomState(), oauth.generateRandomNonce(), oauth.generateRandomCodeVerifier()];
    const address = new URL(this.#server.authorization_endpoint ?? "about:blank");
    const asked: Record<string, string> = {
      client_id: this.#client.client_id,
      redirect_uri: gatewayAddress(),
      response_type: "code",
      scope: this.#known.scopes.join(" "),
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      state,
      nonce,
    };
    // So that the code reaches neither the gateway nor a proxy before it.
    if (this.#server.response_modes_supported?.includes("fragment") ?? true) asked.response_mode = "fragment";
    if (isSilent) asked.prompt = "none";
    for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
    begun({ state, nonce, verifier, isSilent, hash, draft });
    location.assign(address);
  }

  /** Return the tokens for what the issuer has answered. Rejects where it is not the answer to this journey. */
  async tokens(answer: URLSearchParams, { state, nonce, verifier }: Journey): Promise<Tokens> {
    const checked = oauth.validateAuthResponse(this.#server, this.#client, answer, state);
    const response = await oauth.authorizationCodeGrantRequest(
      this.#server,
      this.#client,
      oauth.None(),
      checked,
      gatewayAddress(),
      verifier,
      options(new URL(this.#server.issuer)),
    );
    const given = await oauth.processAuthorizationCodeResponse(this.#server, this.#client, response, { expectedNonce: nonce, requireIdToken: true });
    return new Tokens(this, given);
  }

  async renewed(refreshToken: string): Promise<oauth.TokenEndpointResponse> {
    const response = await oauth.refreshTokenGrantRequest(this.#server, this.#client, oauth.None(), refreshToken, options(new URL(this.#server.issuer)));
    return await oauth.processRefreshTokenResponse(this.#server, this.#client, response);
  }

  /** End the reader's session at the issuer, too, where it offers that; tell whether the reader is on the way there. */
  async signOut(refreshToken: string | undefined): Promise<boolean> {
    if (refreshToken && mayCall(this.#known, this.#server.revocation_endpoint)) {
      const revocation = { ...options(new URL(this.#server.issuer)), signal: AbortSignal.timeout(REVOCATION_MS) };
      // It ends by itself if this fails.
      await oauth.revocationRequest(this.#server, this.#client, oauth.None(), refreshToken, revocation).catch(() => undefined);
    }
    if (!this.#server.end_session_endpoint) return false;
    const address = new URL(this.#server.end_session_endpoint);
    address.searchParams.set("client_id", this.#client.client_id);
    address.searchParams.set("post_logout_redirect_uri", gatewayAddress());
    location.assign(address);
    return true;
  }
}

/** The tokens of a reader who has signed in; they are nowhere but here, and end with the page. */
export class Tokens {
  readonly #provider: Provider;
  #access: string;
  #refresh: string | undefined;
  #endMs = Number.POSITIVE_INFINITY;
  #renewal: Promise<boolean> | undefined;

  constructor(provider: Provider, given: oauth.TokenEndpointResponse) {
    this.#provider = provider;
    this.#access = given.access_token;
    this.#take(given);
  }

  /** Return a token that is still good, if one can be had; otherwise the last one, which the gateway refuses. */
  async current(): Promise<string> {
    if (performance.now() > this.#endMs - AHEAD_MS) await this.renew();
    return this.#access;
  }

  /** Renew the token; tell whether there is another one. */
  async renew(): Promise<boolean> {
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return await this.#renewal;
  }

  async signOut(): Promise<boolean> {
    const refreshToken = this.#refresh;
    this.#refresh = undefined;
    return await this.#provider.signOut(refreshToken);
  }

  async #renew(): Promise<boolean> {
    if (!this.#refresh) return false;
    try {
      this.#take(await this.#provider.renewed(this.#refresh));
      return true;
    } catch (error) {
      // What the issuer refuses it refuses again; what did not reach it may.
      if (error instanceof oauth.ResponseBodyError) this.#refresh = undefined;
      return false;
    }
  }

  #take({ access_token, refresh_token, expires_in }: oauth.TokenEndpointResponse): void {
    this.#access = access_token;
    this.#refresh = refresh_token ?? this.#refresh;
    this.#endMs = expires_in === undefined ? Number.POSITIVE_INFINITY : performance.now() + expires_in * 1000;
  }
}

/** What went wrong on the way, for the reader; "" where nothing needs to be said. */
export function said(error: unknown, { isSilent }: Pick<Journey, "isSilent">): string {
  if (error instanceof oauth.AuthorizationResponseError) {
    return isSilent ? "" : texts.signInFailed(error.error_description ?? error.error);
  }
  if (error instanceof oauth.ResponseBodyError) return texts.signInFailed(error.error_description ?? error.error);
  if (error instanceof SignInError) return error.message;
  if (error instanceof TypeError) return texts.issuerUnreachable;
  return texts.signInFailed(error instanceof Error ? error.message : String(error));
}

/** Whether an endpoint is where the page's policy lets it call. */
function mayCall({ origins }: Issuer, endpoint = "about:blank"): boolean {
  return origins.includes(new URL(endpoint).origin);
}

// On loopback an issuer may do without TLS; the gateway's settings allow it nowhere else.
function options(issuer: URL): { [oauth.allowInsecureRequests]: boolean } {
  return { [oauth.allowInsecureRequests]: issuer.protocol === "http:" };
}
