import { useEffect, useState } from "preact/hooks";

let say: (text: string) => void = () => {};

/** Have a screen reader say the text when it has time. Streamed text never goes here. */
export function announce(text: string): void {
  say(text);
}

export function Announcer() {
  const [text, setText] = useState("");
  useEffect(() => {
    say = setText;
    return () => {
      say = () => {};
    };
  }, []);
  return (
    <p id="announcer" class="unseen" role="status" aria-live="polite">
      {text}
    </p>
  );
}
