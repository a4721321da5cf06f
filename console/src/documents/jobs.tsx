import type { GroundlineClient } from "groundline-client";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { Folded } from "../parts/folded";
import { texts } from "../texts";
import { Job } from "./job";

/** Jobs that are shown. */
const LAST = 20;

interface JobsProps {
  client: GroundlineClient;
  /** "": jobs of all collections. */
  collectionId: string;
  /** Changes when there may be another job. */
  round: unknown;
  /** Called when a job has ended. */
  ended?: () => void;
}

/** The last jobs of a collection. */
export function Jobs(props: JobsProps) {
  return (
    <Folded id="jobs" words={texts.jobs}>
      <JobList {...props} />
    </Folded>
  );
}

function JobList({ client, collectionId, round, ended }: JobsProps) {
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.listJobs({ collectionId, pageSize: LAST }, { signal })).jobs ?? [],
    [client, collectionId, round],
  );
  return (
    <>
      {problem && <Failure problem={problem} retry={reload} />}
      {value?.length === 0 && <p class="hint">{texts.noJobs}</p>}
      <ul>
        {value?.map((job) => (
          <Job key={job.jobId} client={client} given={job} isElsewhere={!collectionId} ended={ended} />
        ))}
      </ul>
    </>
  );
}
