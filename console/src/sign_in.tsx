import { useState } from "preact/hooks";
import { isKey } from "./lib/session";
import { texts } from "./texts";

/** Asks for the key; `problem` says what is wrong with the one before. */
export function SignIn({ problem, signIn }: { problem: string; signIn: (key: string) => void }) {
  const [wrong, setWrong] = useState(problem);
  return (
    <main>
      <form
        id="sign-in"
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          const key = String(new FormData(event.currentTarget).get("key")).trim();
          if (isKey(key)) signIn(key);
          else setWrong(texts.keyInvalid);
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
            ref={(box) => box?.focus()}
          />
          <button class="primary">{texts.goOn}</button>
        </div>
        <p id="key-hint" class="hint">
          {texts.keyHint}
        </p>
        {wrong && (
          <p id="key-error" class="note bad" role="alert">
            {wrong}
          </p>
        )}
      </form>
    </main>
  );
}
