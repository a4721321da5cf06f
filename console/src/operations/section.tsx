import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Problem } from "../lib/problem";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { operations } from "../texts/operations";

interface SectionProps {
  id: string;
  title: string;
  hint?: string;
  /** Beside the title. */
  tools?: ComponentChildren;
  loaded?: { problem?: Problem | undefined; isLoading: boolean; reload: () => void };
  children: ComponentChildren;
}

/** A part of the view, for whose key it is; what cannot be shown says why. */
export function Section({ id, title, hint, tools, loaded, children }: SectionProps) {
  const titleId = useId();
  const { problem, isLoading = false } = loaded ?? {};
  if (problem?.isForbidden) {
    return (
      <section id={id} aria-labelledby={titleId}>
        <h3 id={titleId}>{title}</h3>
        <p class="note">{operations.notForKey}</p>
      </section>
    );
  }
  return (
    <section id={id} aria-labelledby={titleId} aria-busy={isLoading}>
      <div class="row section-head">
        <h3 id={titleId}>{title}</h3>
        {tools}
      </div>
      {hint && <p class="hint">{hint}</p>}
      {problem && <Failure problem={problem} retry={loaded?.reload} />}
      {isLoading && !children && <p class="hint">{texts.loading}</p>}
      {children}
    </section>
  );
}

/** A button that has the section loaded again. */
export function LookAgain({ reload, about }: { reload: () => void; about: string }) {
  return (
    <button type="button" class="quiet" aria-label={`${operations.lookAgain}: ${about}`} onClick={reload}>
      {operations.lookAgain}
    </button>
  );
}
