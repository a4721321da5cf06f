import type { GroundlineClient, IngestionJob } from "groundline-client";
import { useState } from "preact/hooks";
import { Job, RUNNING } from "../documents/job";
import { count, number } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { LookAgain, Section } from "./section";

/** Jobs that are shown at first and added by the button. */
const SHOWN = 20;
/** Jobs that are looked through for those that are shown. */
const LOOKED_AT = 1000;

const KINDS = {
  all: () => true,
  running: ({ state }: IngestionJob) => RUNNING.includes(state),
  failed: ({ state, failedCount }: IngestionJob) => state === "JOB_STATE_FAILED" || Number(failedCount) > 0,
} as const;

type Kind = keyof typeof KINDS;

/** The last jobs on all collections, as they go on, and what they cost. */
export function JobsSection({ client }: { client: GroundlineClient }) {
  const [kind, setKind] = useState<Kind>("all");
  const [most, setMost] = useState(SHOWN);
  const loaded = useLoaded((signal) => jobs(client, kind, most, signal), [client, kind, most]);
  const { value, reload } = loaded;
  const tools = (
    <>
      <label class="setting">
        {operations.show}
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
          <option value="all">{operations.allJobs}</option>
          <option value="running">{operations.running}</option>
          <option value="failed">{operations.failed}</option>
        </select>
      </label>
      <LookAgain reload={reload} about={texts.jobs} />
    </>
  );
  return (
    <Section id="all-jobs" title={texts.jobs} tools={tools} loaded={loaded}>
      {value && (
        <>
          {!value.found.length && <p class="hint">{operations.noSuchJobs}</p>}
          <ul>
            {value.found.map((job) => (
              <Job key={job.jobId} client={client} given={job} isElsewhere />
            ))}
          </ul>
          {value.hasMore && (
            <button type="button" onClick={() => setMost(most + SHOWN)}>
              {texts.more}
            </button>
          )}
          {value.lookedAt > 0 && (
            <p class="hint">
              {kind === "all" || operations.amongLast(count(value.lookedAt))} {value.cost ? operations.jobsCost(number(value.cost, 2), count(value.lookedAt)) : operations.jobsCostNothing(count(value.lookedAt))}
            </p>
          )}
        </>
      )}
    </Section>
  );
}

async function jobs(client: GroundlineClient, kind: Kind, most: number, signal: AbortSignal) {
  const found: IngestionJob[] = [];
  let [lookedAt, cost] = [0, 0];
  for await (const job of client.all("listJobs", { pageSize: kind === "all" ? most + 1 : 200 }, { signal })) {
    if (found.length === most || lookedAt === LOOKED_AT) return { found, lookedAt, cost, hasMore: found.length === most };
    lookedAt += 1;
    cost += job.usage?.costUsd ?? 0;
    if (KINDS[kind](job)) found.push(job);
  }
  return { found, lookedAt, cost, hasMore: false };
}
