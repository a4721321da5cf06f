import type { GroundlineClient, IngestionJob, RevertJobResponse } from "groundline-client";
import { useState } from "preact/hooks";
import { count } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { Failure } from "../parts/failure";
import { texts } from "../texts";

interface TakeBackProps {
  client: GroundlineClient;
  jobId: string;
  /** With the job that puts revisions back, if one is needed. */
  done: (job: IngestionJob | undefined) => void;
}

/** Takes back what a job did, once it was said what that does. */
export function TakeBack({ client, jobId, done }: TakeBackProps) {
  const [plan, setPlan] = useState<RevertJobResponse>();
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const [isDone, setDone] = useState(false);
  const act = async (isPlanned: boolean) => {
    setProblem(undefined);
    setBusy(true);
    try {
      const reply = await client.revertJob({ jobId, dryRun: !isPlanned });
      setPlan(isPlanned ? undefined : reply);
      setDone(isPlanned);
      if (isPlanned) done(reply.job);
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  if (!plan) {
    return (
      <>
        <button type="button" class="quiet take-back" disabled={isBusy} onClick={() => void act(false)}>
          {texts.takeBack}
        </button>
        {isDone && <span class="hint">{texts.takenBack}</span>}
        {problem && <Failure problem={problem} />}
      </>
    );
  }
  const counts = plan.counts ?? [];
  const isNothing = !counts.some(({ action }) => action === "REVERT_ACTION_RESTORE" || action === "REVERT_ACTION_DELETE");
  return (
    <div class="plan" role="group" aria-label={texts.takeBack}>
      <ul>
        {counts.map(({ action, documentCount }) => (
          <li key={action}>{texts.revertActions[action]?.(count(documentCount))}</li>
        ))}
      </ul>
      {isNothing && <p class="hint">{texts.nothingToTakeBack}</p>}
      {!isNothing && (
        <button type="button" disabled={isBusy} onClick={() => void act(true)}>
          {texts.takeBack}
        </button>
      )}
      <button type="button" class="quiet" onClick={() => setPlan(undefined)}>
        {texts.cancel}
      </button>
      {problem && <Failure problem={problem} />}
    </div>
  );
}
