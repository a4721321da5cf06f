import type { GroundlineClient, Thread } from "groundline-client";
import { useState } from "preact/hooks";
import { moment } from "../lib/format";
import { memo } from "../lib/memo";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { SearchBox } from "../parts/search_box";
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

/** The reader's conversations: found, opened again, renamed, pinned, deleted. Others' answers being written does not concern it. */
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
      <SearchBox label={texts.searchConversations} words={words} setWords={setWords} />
      {problem && <Failure problem={problem} retry={reload} />}
      <p id="history-note" class="hint">
        {isLoading && !value ? texts.loading : shown.length ? texts.conversations : wanted ? texts.noMatches : texts.noConversations}
      </p>
      <ul id="threads">
        {shown.map((thread) => (
          <Entry
            key={thread.threadId}
            thread={thread}
            isCurrent={thread.threadId === current}
            open={() => open(thread.threadId)}
            update={async (changes) => {
              await client.updateThread({ threadId: thread.threadId, ...changes });
              reload();
            }}
            remove={() => remove(thread)}
          />
        ))}
      </ul>
    </section>
  );
}

interface EntryProps {
  thread: Thread;
  isCurrent: boolean;
  open: () => void;
  update: (changes: { title?: string; isPinned?: boolean }) => Promise<void>;
  remove: () => void;
}

function Entry({ thread: { title, updateTime, isPinned }, isCurrent, open, update, remove }: EntryProps) {
  const [isRenamed, setRenamed] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const change = async (changes: { title?: string; isPinned?: boolean }) => {
    setProblem(undefined);
    try {
      await update(changes);
      setRenamed(false);
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <li>
      {isRenamed ? (
        <form
          class="rename"
          onSubmit={(event) => {
            event.preventDefault();
            void change({ title: String(new FormData(event.currentTarget).get("title")).trim() });
          }}
          onKeyDown={(event) => {
            if (event.key === "Escape") setRenamed(false);
          }}
        >
          <input name="title" required maxLength={120} dir="auto" aria-label={texts.rename(title)} defaultValue={title} ref={(box) => box?.focus()} />
        </form>
      ) : (
        <button type="button" class="open" dir="auto" aria-current={isCurrent ? "true" : undefined} onClick={open}>
          {title || texts.untitled}
        </button>
      )}
      <time dateTime={updateTime}>{moment(updateTime)}</time>
      <span class="thread-actions">
        <button type="button" class="pin quiet" aria-label={texts.pin(title)} aria-pressed={isPinned} onClick={() => void change({ isPinned: !isPinned })}>
          {isPinned ? "★" : "☆"}
        </button>
        <button type="button" class="edit quiet" aria-label={texts.rename(title)} onClick={() => setRenamed(!isRenamed)}>
          ✎
        </button>
        <button type="button" class="delete quiet" aria-label={texts.deleteThread(title)} onClick={remove}>
          ✕
        </button>
      </span>
      {problem && <Failure problem={problem} />}
    </li>
  );
}

async function threadsOf(client: GroundlineClient, signal: AbortSignal): Promise<Thread[]> {
  const threads: Thread[] = [];
  for await (const thread of client.all("listThreads", {}, { signal })) {
    if (threads.push(thread) === MOST) break;
  }
  return threads;
}
