import { Changing, useChanges } from "../lib/changing";
import { problemOf } from "../lib/problem";
import { texts } from "../texts";
import { announce } from "./announcer";

/** How long a deletion can be taken back, in milliseconds. */
const UNDO_MS = 10_000;
/** How long what was deleted stays hidden: until lists have been loaded again. */
const HIDDEN_MS = 3_000;

interface Deletion {
  /** What is deleted: the id of a thread, document or collection. */
  id: string;
  words: string;
  perform: () => Promise<void>;
  state: "waiting" | "performing" | "gone" | "failed";
  timer: ReturnType<typeof setTimeout>;
}

let deletions: readonly Deletion[] = [];
let performed = 0;
const shown = new Changing();

function change(next: readonly Deletion[]): void {
  deletions = next;
  shown.changed();
}

function become(id: string, changes: Partial<Deletion>): void {
  change(deletions.map((each) => (each.id === id ? { ...each, ...changes } : each)));
}

function drop(id: string): void {
  change(deletions.filter((each) => each.id !== id));
}

async function perform({ id, perform: act, timer }: Deletion): Promise<void> {
  clearTimeout(timer);
  become(id, { state: "performing" });
  try {
    await act();
    performed += 1;
    become(id, { state: "gone", timer: setTimeout(() => drop(id), HIDDEN_MS) });
  } catch (error) {
    become(id, { state: "failed", words: problemOf(error).message });
  }
}

// Who leaves the page does not take back what was deleted.
addEventListener("pagehide", () => {
  for (const each of deletions) if (each.state === "waiting") void perform(each);
});

/** Perform a deletion in ten seconds, unless it is taken back; `words` say what is gone. */
export function deleteSoon(id: string, words: string, act: () => Promise<void>): void {
  if (deletions.some((each) => each.id === id && each.state !== "failed")) return;
  const timer = setTimeout(() => {
    const due = deletions.find((each) => each.id === id);
    if (due) void perform(due);
  }, UNDO_MS);
  change([...deletions.filter((each) => each.id !== id), { id, words, perform: act, state: "waiting", timer }]);
  announce(words);
}

/** What lists leave out, and a number that grows when they are to be loaded again. */
export function useDeletions(): { hidden: ReadonlySet<string>; performed: number } {
  useChanges(shown);
  return { hidden: new Set(deletions.filter(({ state }) => state !== "failed").map(({ id }) => id)), performed };
}

/** What has just been deleted, with the way back. */
export function Undo() {
  useDeletions();
  const offered = deletions.filter(({ state }) => state === "waiting" || state === "failed");
  if (!offered.length) return null;
  return (
    <ul id="undo">
      {offered.map(({ id, words, state, timer }) => (
        <li key={id}>
          <span>{words}</span>
          <button
            type="button"
            onClick={() => {
              clearTimeout(timer);
              drop(id);
            }}
          >
            {state === "failed" ? texts.close : texts.undo}
          </button>
        </li>
      ))}
    </ul>
  );
}
