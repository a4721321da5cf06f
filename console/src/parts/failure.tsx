import type { Problem } from "../lib/problem";
import { texts } from "../texts";

/** What went wrong, with what to do next. */
export function Failure({ problem, retry }: { problem: Problem; retry?: (() => void) | undefined }) {
  return (
    <p class="note bad" role="alert">
      {problem.message}
      {problem.retryable && retry && (
        <button type="button" onClick={retry}>
          {texts.tryAgain}
        </button>
      )}
    </p>
  );
}
