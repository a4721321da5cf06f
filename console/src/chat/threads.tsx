import type { GroundlineClient, Thread } from "groundline-client";
import { useState } from "preact/hooks";
import { moment } from "../lib/format";
import { memo } from "../lib/memo";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { deleteSoon, useDeletions } from "../parts/undo";
import { texts } from "../texts";

/** Threads that are loaded: as many as a list of them is searched. */
const MOST = 500;

interface ThreadsProps {
  client: GroundlineClient;
  /** Changes when there may be another one. */
  round: string;
  current: string;
  open: (threadId: string) => void;
  forgotten: (threadId: string) => void;
}

/** The reader's conversations: found, opened again, deleted. Others' answers being written does not concern it. */
export const Threads = memo(ThreadList, (before, after) =>
  (["client", "round", "current"] as const).every((name) => before[name] === after[name]),
);

function ThreadList({ client, round, current, open, forgotten }: ThreadsProps) {
  const [words, setWords] = useState("");
  const { hidden, performed } = useDeletions();
  const { value, problem, isLoading, reload } = useLoaded(async (signal) => threadsOf(client, signal), [client, round, performed]);
  const wanted = words.trim().toLowerCase();
  const shown = (value ?? []).filter(({ threadId, title }) => !hidden.has(threadId) && title.toLowerCase().includes(wanted));
  const remove = ({ threadId, title }: Thread) => {
    forgotten(threadId);
    deleteSoon(threadId, texts.deleted(title || texts.untitled), async () => void (await client.deleteThread({ threadId })));
  };
  return (
    <section id="history" aria-label={texts.history}>
      <input
        type="search"
        aria-label={texts.searchConversations}
        placeholder={texts.searchConversations}
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
      />
      {problem && <Failure problem={problem} retry={reload} />}
      <p id="history-note" class="hint">
        {isLoading && !value ? texts.loading : shown.length ? texts.conversations : wanted ? texts.noMatches : texts.noConversations}
      </p>
      <ul id="threads">
        {shown.map((thread) => (
          <li key={thread.threadId}>
            <button
              type="button"
              class="open"
              dir="auto"
              aria-current={thread.threadId === current ? "true" : undefined}
              onClick={() => open(thread.threadId)}
            >
              {thread.title || texts.untitled}
            </button>
            <time dateTime={thread.updateTime}>{moment(thread.updateTime)}</time>
            <button type="button" class="delete quiet" aria-label={texts.deleteThread(thread.title)} onClick={() => remove(thread)}>
              ✕
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

async function threadsOf(client: GroundlineClient, signal: AbortSignal): Promise<Thread[]> {
  const threads: Thread[] = [];
  for await (const thread of client.all("listThreads", {}, { signal })) {
    if (threads.push(thread) === MOST) break;
  }
  return threads;
}
