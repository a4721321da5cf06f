import { saveAs } from "../documents/original";
import { count } from "../lib/format";
import { texts } from "../texts";
import type { Bench } from "./bench";
import { runAsText, type Run } from "./runs";

/** The runs that are open, and which of them is looked at beside which. */
export function Runs({ bench }: { bench: Bench }) {
  const { runs, after, before } = bench;
  return (
    <section id="runs" aria-label={texts.runs}>
      <h3>{texts.runs}</h3>
      <ul>
        {runs.map((run) => (
          <li key={run.name} class="row">
            <span class="run-name" dir="auto">
              {run.name}
            </span>
            <span class="hint">{[run.set, texts.questionsCount(count(run.records.length))].filter(Boolean).join(" · ")}</span>
            {run.isNew && <span class="hint warn">{texts.notSaved}</span>}
            <button type="button" class="quiet" aria-label={texts.saveRun(run.name)} onClick={() => saveRun(bench, run)}>
              {texts.save}
            </button>
            <button type="button" class="quiet" aria-label={texts.closeRun(run.name)} onClick={() => bench.remove(run.name)}>
              {texts.close}
            </button>
          </li>
        ))}
      </ul>
      <div class="settings">
        <label class="setting">
          {texts.shownRun}
          <select id="after" value={after} onChange={(event) => bench.show(event.currentTarget.value, bench.before)}>
            {runs.map(({ name }) => (
              <option value={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="setting">
          {texts.comparedWith}
          <select id="before" value={before} onChange={(event) => bench.show(bench.after, event.currentTarget.value)}>
            <option value="">{texts.noOther}</option>
            {runs
              .filter(({ name }) => name !== after)
              .map(({ name }) => (
                <option value={name}>{name}</option>
              ))}
          </select>
        </label>
      </div>
    </section>
  );
}

function saveRun(bench: Bench, run: Run): void {
  const name = run.name.replace(/\.json$/, "").replace(/[^\p{L}\p{N}_-]+/gu, "-");
  saveAs(`${name}.json`, new Blob([runAsText(run)], { type: "application/json" }));
  bench.saved(run.name);
}
