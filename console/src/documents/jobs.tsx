import type { GroundlineClient, IngestionJob } from "groundline-client";
import { useEffect, useState } from "preact/hooks";
import { count, moment } from "../lib/format";
import { isAbort, problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { texts } from "../texts";

/** The last jobs of a collection that are shown. */
const LAST = 20;
const RUNNING = ["JOB_STATE_QUEUED", "JOB_STATE_RUNNING"];

/** A collection's last jobs, as they go on. */
export function Jobs({ client, collectionId, round }: { client: GroundlineClient; collectionId: string; round: number }) {
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.listJobs({ collectionId, pageSize: LAST }, { signal })).jobs ?? [],
    [client, collectionId, round],
  );
  return (
    <details id="jobs">
      <summary>{texts.jobs}</summary>
      {problem && <Failure problem={problem} retry={reload} />}
      {value?.length === 0 && <p class="hint">{texts.noJobs}</p>}
      <ul>
        {value?.map((job) => (
          <Job key={job.jobId} client={client} given={job} />
        ))}
      </ul>
    </details>
  );
}

function Job({ client, given }: { client: GroundlineClient; given: IngestionJob }) {
  const [job, setJob] = useState(given);
  const [problem, setProblem] = useState<Problem>();
  const isRunning = RUNNING.includes(job.state);
  const fail = (error: unknown) => {
    if (!isAbort(error)) setProblem(problemOf(error));
  };
  useEffect(() => {
    if (!isRunning) return undefined;
    const abort = new AbortController();
    const watch = async () => {
      for await (const event of client.watchJob({ jobId: given.jobId }, { signal: abort.signal })) if (event.job) setJob(event.job);
    };
    watch().catch(fail);
    return () => abort.abort();
  }, [client, given.jobId, isRunning]);
  const change = (act: () => Promise<{ job?: IngestionJob }>) => {
    setProblem(undefined);
    act().then((reply) => reply.job && setJob(reply.job), fail);
  };
  const { jobId, state, doneCount, itemCount, failedCount, createTime } = job;
  return (
    <li>
      <time dateTime={createTime}>{moment(createTime)}</time>
      <span class={state === "JOB_STATE_FAILED" ? "bad" : ""}>{texts.jobStates[state] ?? state}</span>
      <span class="hint">{texts.jobCounts(count(doneCount), count(itemCount), Number(failedCount ?? 0))}</span>
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
      {problem && <Failure problem={problem} />}
    </li>
  );
}
