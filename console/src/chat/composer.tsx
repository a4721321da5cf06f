import type { GroundlineClient } from "groundline-client";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Selection } from "../lib/address";
import { SelectionButton } from "../parts/selection";
import { texts } from "../texts";

interface ComposerProps {
  client: GroundlineClient;
  draft: string;
  setDraft: (text: string) => void;
  isRunning: boolean;
  /** What is being done while it is running. */
  status: string;
  selection: Selection;
  setSelection: (selection: Selection) => void;
  ask: (query: string) => void;
  stop: () => void;
}

/** Where a question is written, with what it is asked of. */
export function Composer({ client, draft, setDraft, isRunning, status, selection, setSelection, ask, stop }: ComposerProps) {
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // Who has gone on to a citation meanwhile stays there.
    if (!isRunning && document.activeElement === document.body) box.current?.focus({ preventScroll: true });
  }, [isRunning]);
  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.style.height = "auto";
    box.current.style.height = `${box.current.scrollHeight + 2}px`;
  }, [draft]);
  const send = () => {
    const query = draft.trim();
    if (query && !isRunning) ask(query);
  };
  return (
    <footer>
      <div id="ask">
        <div class="options">
          <SelectionButton client={client} selection={selection} setSelection={setSelection} isAnswered />
          <label>
            <span class="unseen">{texts.effort}</span>
            <select id="effort" onChange={(event) => setSelection({ ...selection, effort: event.currentTarget.value as Selection["effort"] })}>
              {Object.entries(texts.efforts).map(([effort, words]) => (
                <option value={effort} selected={effort === selection.effort}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          {isRunning && <span class="status busy">{status}</span>}
        </div>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <label class="unseen" for="query">
            {texts.question}
          </label>
          <textarea
            id="query"
            ref={box}
            rows={1}
            maxLength={8000}
            placeholder={texts.askPlaceholder}
            dir="auto"
            required
            value={draft}
            onInput={(event) => setDraft(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              send();
            }}
          />
          {isRunning ? (
            <button key="stop" id="stop" type="button" onClick={stop}>
              {texts.stop}
            </button>
          ) : (
            <button key="send" id="send" class="primary">
              {texts.ask}
            </button>
          )}
        </form>
      </div>
    </footer>
  );
}
