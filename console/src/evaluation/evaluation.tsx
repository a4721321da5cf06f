import type { GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { allCollections } from "../documents/collections";
import { count } from "../lib/format";
import { saveAs } from "../documents/original";
import { useChanges } from "../lib/changing";
import { useLoaded } from "../lib/use_loaded";
import { Drop } from "../parts/drop";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { groupOf, MODES, STRATEGIES } from "./asking";
import { Bench } from "./bench";
import { Results } from "./results";
import { Runs } from "./run_list";
import { setAsFiles } from "./sets";

interface EvaluationProps {
  client: GroundlineClient;
  /** Aborts when the session ends. */
  ended: AbortSignal;
}

// What is open stays while other views are shown, and goes with the session.
const benches = new WeakMap<GroundlineClient, Bench>();

/** How well searches find what the questions of a set ask for: measured, compared, and looked into. */
export function Evaluation({ client, ended }: EvaluationProps) {
  const bench = benches.get(client) ?? new Bench();
  benches.set(client, bench);
  useChanges(bench);
  const [collectionId, setCollectionId] = useState("");
  const collections = useLoaded((signal) => allCollections(client, signal), [client]);
  const chosen = collectionId || collections.value?.[0]?.collectionId || "";
  const after = bench.runs.find(({ name }) => name === bench.after);
  return (
    <main class="wide">
      <h2>{texts.evaluation}</h2>
      <p class="hint">{texts.evaluationHint}</p>
      <Drop id="evaluation-files" label={texts.setsAndRuns} words={texts.dropSets} add={(files) => void bench.take(files)} />
      {bench.problem && <Failure problem={bench.problem} />}
      {collections.problem && <Failure problem={collections.problem} retry={collections.reload} />}
      <section id="measure" class="card" aria-label={texts.measure}>
        <h3>{texts.measure}</h3>
        {bench.set ? (
          <p role="status">
            {[bench.set.name, texts.questionsCount(count(bench.set.queries.length)), texts.judgementsCount(count(bench.set.judgements.length))].filter(Boolean).join(" · ")}
          </p>
        ) : (
          <p class="hint">{texts.noSet}</p>
        )}
        {bench.set?.isNew && (
          <p class="row">
            {Object.entries(setAsFiles(bench.set)).map(([name, content]) => (
              <button type="button" class="quiet" onClick={() => saveAs(name, new Blob([content], { type: "text/plain" }))}>
                {texts.saveFile(name)}
              </button>
            ))}
          </p>
        )}
        <label class="setting">
          {texts.collection}
          <select id="evaluated" value={chosen} onChange={(event) => setCollectionId(event.currentTarget.value)}>
            {collections.value?.map((each) => (
              <option value={each.collectionId}>{each.name || each.collectionId}</option>
            ))}
          </select>
        </label>
        <details>
          <summary>{texts.fromRatings}</summary>
          <p class="hint">{texts.fromRatingsHint}</p>
          <button
            id="from-ratings"
            type="button"
            disabled={!chosen || bench.progress !== undefined}
            onClick={() => void bench.takeRated(client, chosen, ended)}
          >
            {texts.makeSet}
          </button>
        </details>
        <Measure bench={bench} measure={(groups) => void bench.measure(client, { collectionId: chosen, groups }, ended)} isReady={Boolean(bench.set && chosen)} />
      </section>
      {bench.runs.length > 0 && <Runs bench={bench} />}
      {after && <Results key={`${bench.after} ${bench.before}`} client={client} bench={bench} after={after} collectionId={chosen} />}
    </main>
  );
}

interface MeasureProps {
  bench: Bench;
  measure: (groups: string[]) => void;
  isReady: boolean;
}

function Measure({ bench, measure, isReady }: MeasureProps) {
  const [modes, setModes] = useState<readonly string[]>(["hybrid"]);
  const [strategy, setStrategy] = useState("");
  const { progress } = bench;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        measure(modes.map((mode) => groupOf(mode, strategy)));
      }}
    >
      <div class="row" role="group" aria-label={texts.settingNames.mode}>
        {MODES.map((mode) => (
          <label class="choice">
            <input
              type="checkbox"
              checked={modes.includes(mode)}
              onChange={() => setModes(MODES.filter((each) => (each === mode) !== modes.includes(each)))}
            />
            {texts.settingValues[`RETRIEVAL_MODE_${mode.toUpperCase()}`]}
          </label>
        ))}
      </div>
      <label class="setting">
        {texts.settingNames.strategy}
        <select value={strategy} onChange={(event) => setStrategy(event.currentTarget.value)}>
          {STRATEGIES.map((each) => (
            <option value={each}>{texts.settingValues[`RERANK_STRATEGY_${(each || "none").toUpperCase()}`]}</option>
          ))}
        </select>
      </label>
      {progress ? (
        <div class="row">
          <progress max={progress.all} value={progress.done} aria-label={texts.measuring} />
          <span role="status">{texts.usedOf(count(progress.done), count(progress.all))}</span>
          <button key="cancel" type="button" onClick={() => bench.cancel()}>
            {texts.cancel}
          </button>
        </div>
      ) : (
        <button key="measure" class="primary" disabled={!isReady || !modes.length}>
          {texts.measure}
        </button>
      )}
    </form>
  );
}
