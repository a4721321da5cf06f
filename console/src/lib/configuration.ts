/** What the page knows of the gateway's settings. */
export interface Configuration {
  /** How people sign in in place of a key. */
  signIn?: Issuer;
  /** Address of a trace in a viewer, with {trace_id} in place of its id. */
  traceUrl?: string;
}

/** A client of an issuer of OpenID Connect. */
export interface Issuer {
  issuer: string;
  clientId: string;
  scopes: readonly string[];
  /** What the page's policy lets it call: the issuer's own origin, and those of its other endpoints. */
  origins: readonly string[];
}

export const configuration: Configuration = JSON.parse(document.querySelector<HTMLMetaElement>('meta[name="groundline"]')?.content ?? "{}");
