import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { problemOf, type Problem } from "../lib/problem";
import { texts } from "../texts";
import { Failure } from "./failure";

/** What a list has of a page, and the token of the next one; "" at the end. */
export interface Page<T> {
  entries: readonly T[] | undefined;
  next: string | undefined;
}

interface PagedDetailsProps<T> {
  id: string;
  summary: string;
  hint?: string;
  read: (pageToken: string) => Promise<Page<T>>;
  children: (entry: T) => ComponentChildren;
}

/** A list that is folded away, and read page by page from when it is opened. */
export function PagedDetails<T>({ id, summary, hint, read, children }: PagedDetailsProps<T>) {
  const [entries, setEntries] = useState<readonly T[]>([]);
  const [token, setToken] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const load = async () => {
    setProblem(undefined);
    try {
      const page = await read(token ?? "");
      setEntries([...entries, ...(page.entries ?? [])]);
      setToken(page.next ?? "");
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <details id={id} onToggle={(event) => event.currentTarget.open && token === undefined && void load()}>
      <summary>{summary}</summary>
      {hint && <p class="hint">{hint}</p>}
      {problem && <Failure problem={problem} retry={() => void load()} />}
      <ol>{entries.map(children)}</ol>
      {token && (
        <button type="button" onClick={() => void load()}>
          {texts.more}
        </button>
      )}
    </details>
  );
}
