import { GroundlineClient } from "groundline-client";
import { useEffect, useRef, useState } from "preact/hooks";
import { become } from "../lib/address";
import { configuration } from "../lib/configuration";
import { refusals } from "../lib/problem";
import { clientFor, forgetKey, gatewayAddress, keepKey, takeKey } from "../lib/session";
import { texts } from "../texts";
import { ended, keepSignedIn, takeAnswer, wasSignedIn } from "./journey";
import type { Tokens } from "./oidc";

/** A client of the gateway for whoever has signed in. */
interface Session {
  client: GroundlineClient;
  /** What is said when the gateway does not take it any more. */
  invalid: string;
  /** Forget it, and whatever stands for it elsewhere. */
  end: () => void;
}

interface SessionState {
  session: Session | undefined;
  /** Whether the issuer is being asked. */
  isWaiting: boolean;
  /** What is wrong with the session before, or with signing in. */
  problem: string;
  useKey: (key: string) => void;
  useIssuer: () => void;
  signOut: () => void;
}

/** Keep who has signed in: by a key, or at the issuer. `draft` is a typed question, which outlives the way there. */
export function useSession(draft: string, setDraft: (text: string) => void): SessionState {
  const [answer] = useState(takeAnswer);
  const [session, setSession] = useState(() => ofKey(takeKey()));
  const [isWaiting, setWaiting] = useState(() => Boolean(configuration.signIn && (answer || (!session && wasSignedIn()))));
  const [problem, setProblem] = useState("");
  const wait = async (act: () => Promise<string>) => {
    setWaiting(true);
    setProblem(await act());
    setWaiting(false);
  };
  const signedIn = (tokens: Tokens) => {
    forgetKey();
    setSession(ofTokens(tokens));
  };
  const go = (isSilent: boolean) => wait(() => toIssuer(isSilent, draft));
  useEffect(() => {
    if (answer) void wait(() => fromIssuer(answer, signedIn, setDraft));
    else {
      // Who went to the issuer has come back by the browser's own button.
      const left = ended();
      if (left) setDraft(left.draft);
      if (isWaiting) void go(true);
    }
    const restored = ({ persisted }: PageTransitionEvent) => persisted && setWaiting(false);
    addEventListener("pageshow", restored);
    return () => removeEventListener("pageshow", restored);
  }, []);
  const current = useRef(session);
  current.current = session;
  useEffect(
    () =>
      refusals.subscribe(() => {
        if (!current.current) return;
        setProblem(current.current.invalid);
        forgetKey();
        keepSignedIn(false);
        setSession(undefined);
      }),
    [],
  );
  return {
    session,
    isWaiting,
    problem,
    useKey: (key) => {
      keepKey(key);
      setProblem("");
      setSession(ofKey(key));
    },
    useIssuer: () => void go(false),
    signOut: () => {
      session?.end();
      setProblem("");
      setSession(undefined);
    },
  };
}

function ofKey(key: string): Session | undefined {
  return key ? { client: clientFor(key), invalid: texts.keyInvalid, end: forgetKey } : undefined;
}

function ofTokens(tokens: Tokens): Session {
  keepSignedIn(true);
  const end = () => {
    keepSignedIn(false);
    void tokens.signOut();
  };
  const withToken: typeof fetch = async (input, init) => {
    const send = async () =>
      await fetch(input, { ...init, headers: { ...(init?.headers as Record<string, string>), authorization: `Bearer ${await tokens.current()}` } });
    const response = await send();
    return response.status === 401 && (await tokens.renew()) ? await send() : response;
  };
  return { client: new GroundlineClient(gatewayAddress(), "", { fetch: withToken }), invalid: texts.sessionEnded, end };
}

/** Send the reader to the issuer; return what went wrong. */
async function toIssuer(isSilent: boolean, draft: string): Promise<string> {
  const issuer = configuration.signIn;
  if (!issuer) return "";
  // Asked without a word, the issuer is asked once.
  keepSignedIn(false);
  const { Provider, said } = await import("./oidc");
  try {
    const provider = await Provider.of(issuer);
    await provider.go({ isSilent, hash: location.hash, draft });
    // The page is left.
    return await new Promise(() => {});
  } catch (error) {
    return said(error, { isSilent: false });
  }
}

/** Take the reader in whom the issuer has sent back; return what went wrong. */
async function fromIssuer(answer: URLSearchParams, signedIn: (tokens: Tokens) => void, setDraft: (text: string) => void): Promise<string> {
  const [issuer, journey] = [configuration.signIn, ended()];
  // An answer that nobody here asked for, such as one in a link of somebody else.
  if (!issuer || !journey) return "";
  become(journey.hash);
  setDraft(journey.draft);
  const { Provider, said } = await import("./oidc");
  try {
    const provider = await Provider.of(issuer);
    signedIn(await provider.tokens(answer, journey));
    return "";
  } catch (error) {
    return said(error, journey);
  }
}
