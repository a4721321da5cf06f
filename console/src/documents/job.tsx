import type { GroundlineClient, IngestionItem, IngestionJob } from "groundline-client";
import { useEffect, useState } from "preact/hooks";
import { documentsAddress } from "../lib/address";
import { count, moment } from "../lib/format";
import { isAbort, problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { Folded } from "../parts/folded";
import { texts } from "../texts";
import { TakeBack } from "./take_back";

/** Items of a job that are loaded at first and added by the button. */
const ITEMS = 100;
export const RUNNING: readonly string[] = ["JOB_STATE_QUEUED", "JOB_STATE_RUNNING"];

interface JobProps {
  client: GroundlineClient;
  given: IngestionJob;
  isOpened?: boolean;
  /** Whether its collection is to be named. */
  isElsewhere?: boolean;
  /** Called when a job that was running has ended, or something was taken back: documents may have changed. */
  ended?: () => void;
}

/** A job as it goes on, with what became of each of its documents. */
export function Job({ client, given, isOpened = false, isElsewhere = false, ended }: JobProps) {
  const [job, setJob] = useState(given);
  const [problem, setProblem] = useState<Problem>();
  const { jobId, state, doneCount, itemCount, failedCount, createTime, isDryRun, isHeld, collectionId } = job;
  const isRunning = RUNNING.includes(state);
  const fail = (error: unknown) => {
    if (!isAbort(error)) setProblem(problemOf(error));
  };
  useEffect(() => {
    if (!isRunning) return undefined;
    const abort = new AbortController();
    const watch = async () => {
      for await (const event of client.watchJob({ jobId }, { signal: abort.signal })) {
        if (event.job) setJob(event.job);
        if (event.job && !RUNNING.includes(event.job.state)) ended?.();
      }
    };
    watch().catch(fail);
    return () => abort.abort();
  }, [client, jobId, isRunning]);
  const change = (act: () => Promise<{ job?: IngestionJob }>) => {
    setProblem(undefined);
    act().then((reply) => reply.job && setJob(reply.job), fail);
  };
  const tookBack = (next: IngestionJob | undefined) => {
    if (next) setJob(next);
    else ended?.();
  };
  return (
    <li class="job">
      <time dateTime={createTime}>{moment(createTime)}</time>
      <span class={state === "JOB_STATE_FAILED" ? "bad" : ""}>{texts.jobStates[state] ?? state}</span>
      {isDryRun && <span class="hint">{texts.dryRun}</span>}
      {isElsewhere && <a href={documentsAddress(collectionId)}>{collectionId}</a>}
      <span class="hint">{texts.jobCounts(count(doneCount), count(itemCount), Number(failedCount ?? 0))}</span>
      {isHeld && (
        <>
          <span class="hint">{texts.indexHeld}</span>
          <button type="button" class="swap" onClick={() => change(() => client.swapIndex({ jobId }))}>
            {texts.useIndex}
          </button>
        </>
      )}
      {isRunning && (
        <button type="button" class="quiet" onClick={() => change(() => client.cancelJob({ jobId }))}>
          {texts.cancelJob}
        </button>
      )}
      {!isRunning && Number(failedCount) > 0 && (
        <button type="button" class="quiet" onClick={() => change(() => client.retryJob({ jobId }))}>
          {texts.retryFailed}
        </button>
      )}
      {!isRunning && !isDryRun && <TakeBack key={jobId} client={client} jobId={jobId} done={tookBack} />}
      {problem && <Failure problem={problem} />}
      {!isRunning && (
        <Folded class="items" words={texts.items} isOpened={isOpened}>
          <Items client={client} jobId={jobId} />
        </Folded>
      )}
    </li>
  );
}

function Items({ client, jobId }: { client: GroundlineClient; jobId: string }) {
  const [most, setMost] = useState(ITEMS);
  const { value, problem, reload } = useLoaded(
    async (signal) => {
      const items: IngestionItem[] = [];
      for await (const item of client.all("getJob", { jobId }, { signal })) {
        // A crawl, or a source's run, is an item of its own beside its documents.
        if ((!item.isCrawl || item.failure) && items.push(item) > most) break;
      }
      return items;
    },
    [client, jobId, most],
  );
  if (problem) return <Failure problem={problem} retry={reload} />;
  return (
    <>
      {value?.length === 0 && <p class="hint">{texts.noItems}</p>}
      <ul>
        {value?.slice(0, most).map(({ itemIndex, uri, state, outcome, failure, undescribedPictureCount: missing }) => (
          <li key={itemIndex}>
            <span dir="auto">{uri}</span>
            <span class={failure ? "bad" : "hint"}>{texts.outcomes[outcome] ?? texts.ingestionStates[state] ?? state}</span>
            {failure && <span class="reason">{failure.message}</span>}
            {missing > 0 && <span class="hint warn">{texts.undescribed(count(missing))}</span>}
          </li>
        ))}
      </ul>
      {value && value.length > most && (
        <button type="button" class="quiet" onClick={() => setMost(most + ITEMS)}>
          {texts.more}
        </button>
      )}
    </>
  );
}
