import { useState } from "preact/hooks";
import { configuration } from "../lib/configuration";
import { isKey } from "../lib/session";
import { texts } from "../texts";

interface SignInProps {
  /** What is wrong with the session before, or with signing in. */
  problem: string;
  isWaiting: boolean;
  useKey: (key: string) => void;
  useIssuer: () => void;
}

/** Asks who the reader is: by the issuer, if there is one, or by a key. */
export function SignIn({ problem, isWaiting, useKey, useIssuer }: SignInProps) {
  if (isWaiting) {
    return (
      <main>
        <p class="hint" id="signing-in" role="status">
          {texts.signingIn}
        </p>
      </main>
    );
  }
  const { signIn } = configuration;
  return (
    <main>
      <div id="sign-in" class="card">
        {problem && (
          <p id="key-error" class="note bad" role="alert">
            {problem}
          </p>
        )}
        {signIn && (
          <>
            <button type="button" id="use-issuer" class="primary" ref={(button) => button?.focus()} onClick={useIssuer}>
              {texts.signIn}
            </button>
            <p class="hint">{texts.signInAt(new URL(signIn.issuer).host)}</p>
          </>
        )}
        {signIn ? (
          <details>
            <summary>{texts.signInByKey}</summary>
            <KeyForm useKey={useKey} />
          </details>
        ) : (
          <KeyForm useKey={useKey} isFirst />
        )}
      </div>
    </main>
  );
}

function KeyForm({ useKey, isFirst = false }: { useKey: (key: string) => void; isFirst?: boolean }) {
  const [isWrong, setWrong] = useState(false);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const key = String(new FormData(event.currentTarget).get("key")).trim();
        if (isKey(key)) useKey(key);
        else setWrong(true);
      }}
    >
      <label for="key">{texts.apiKey}</label>
      <div class="row">
        <input
          id="key"
          name="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          aria-describedby="key-hint"
          ref={(box) => {
            if (isFirst) box?.focus();
          }}
        />
        <button class="primary">{texts.goOn}</button>
      </div>
      <p id="key-hint" class="hint">
        {texts.keyHint}
      </p>
      {isWrong && (
        <p class="note bad" role="alert">
          {texts.keyInvalid}
        </p>
      )}
    </form>
  );
}
