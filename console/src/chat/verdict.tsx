import type { ValidationIssue } from "groundline-client";
import { percent } from "../lib/format";
import { texts } from "../texts";
import { Failure } from "../parts/failure";
import type { Exchange } from "./exchange";

// Issues that an ending, or a mark in the text, says already.
const SAID = new Set(["ANSWER_CUT_OFF", "ANSWER_WITHHELD"]);
/** Below this, an answer that its sources support comes with a warning. */
const LOW_CONFIDENCE = 0.5;

/** What must be known about an answer, in words a person understands. */
export function Verdict({ exchange, retry }: { exchange: Exchange; retry: () => void }) {
  const { completed, kept, problem, state } = exchange;
  return (
    <div class="notes">
      {problem && <Failure problem={problem} retry={retry} />}
      {state === "stopped" && <Note kind="">{texts.stopped}</Note>}
      {completed && <Completed exchange={exchange} />}
      {kept && <Kept kept={kept} />}
    </div>
  );
}

function Note({ kind, children }: { kind: "warn" | ""; children: string }) {
  return <p class={`note ${kind}`}>{children}</p>;
}

function Completed({ exchange: { completed, sources } }: { exchange: Exchange }) {
  const { finishReason, validation, degraded = [], model, nearlyUsed = [] } = completed ?? {};
  const isRefusal = finishReason === "FINISH_REASON_NO_ANSWER";
  const confidence = validation?.confidence ?? 0;
  const isLow = Boolean(validation?.grounded) && confidence < LOW_CONFIDENCE;
  const about = [
    ...(model ? [model] : []),
    ...(validation?.grounded && !isLow && !isRefusal ? [texts.confidence(percent(confidence))] : []),
  ];
  return (
    <>
      {finishReason && texts.endings[finishReason] && <Note kind="warn">{texts.endings[finishReason]}</Note>}
      {isRefusal && (
        <Note kind="warn">{`${sources.length ? texts.noneAnswers : texts.noAnswer} ${texts.noAnswerHint}`}</Note>
      )}
      {validation && !isRefusal && (
        <>
          {!validation.grounded && <Note kind="warn">{texts.notGrounded}</Note>}
          {isLow && <Note kind="warn">{texts.lowConfidence(percent(confidence))}</Note>}
          {(validation.issues ?? [])
            .filter(({ reason }) => !SAID.has(reason))
            .map((issue) => (
              <Note kind="warn">{issueText(issue)}</Note>
            ))}
        </>
      )}
      {degraded.map(({ component, message, reason }) => (
        <Note kind="warn">{texts.withoutComponent(texts.components[component] ?? component, message || reason)}</Note>
      ))}
      {nearlyUsed.map(({ quota, used, limit }) => (
        <Note kind="warn">{texts.nearlyUsed(texts.quotas[quota] ?? quota, percent(Number(used) / Number(limit)))}</Note>
      ))}
      {about.length > 0 && <Note kind="">{about.join(" · ")}</Note>}
    </>
  );
}

function issueText({ reason, message }: ValidationIssue): string {
  return texts.issues[reason] ?? (message || reason);
}

function Kept({ kept }: { kept: NonNullable<Exchange["kept"]> }) {
  if (kept === "unanswered") return <Note kind="warn">{texts.unanswered}</Note>;
  return (
    <>
      {kept.isWithheld && <Note kind="warn">{texts.withheld}</Note>}
      {kept.finishReason === "FINISH_REASON_NO_ANSWER" && <Note kind="warn">{texts.noAnswer}</Note>}
      {texts.endings[kept.finishReason] && <Note kind="warn">{texts.endings[kept.finishReason] ?? ""}</Note>}
      {kept.model && <Note kind="">{kept.model}</Note>}
    </>
  );
}
