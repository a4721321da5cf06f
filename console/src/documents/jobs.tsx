import type { GroundlineClient } from "groundline-client";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { Job } from "./job";

/** Jobs that are shown. */
const LAST = 20;

/** The last jobs of a collection, "" for those of all; `round` changes when there may be another one. */
export function Jobs({ client, collectionId, round }: { client: GroundlineClient; collectionId: string; round: unknown }) {
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
          <Job key={job.jobId} client={client} given={job} isElsewhere={!collectionId} />
        ))}
      </ul>
    </details>
  );
}
