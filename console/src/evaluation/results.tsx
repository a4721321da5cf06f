import type { GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { count } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { language, texts } from "../texts";
import type { Bench } from "./bench";
import { measuresOf } from "./measures";
import { Questions, type Listed } from "./questions";
import { compare, directionOf, missedBy, verdictOf, type Difference, type Estimate, type Run } from "./runs";

interface ResultsProps {
  client: GroundlineClient;
  bench: Bench;
  after: Run;
  /** The collection that questions are opened in. */
  collectionId: string;
}

/** The figures of a run, or its differences from another one, and the questions that they come from. */
export function Results({ client, bench, after, collectionId }: ResultsProps) {
  const before = bench.runs.find(({ name }) => name === bench.before);
  return (
    <section id="results" aria-label={texts.figures}>
      <Notes run={after} />
      {before ? (
        <Compared client={client} before={before} after={after} collectionId={collectionId} />
      ) : (
        <>
          {Object.entries(after.measures).map(([group, estimates]) => (
            <Figures title={titleOf(group)} rows={namesOf(group, estimates).map((name) => [texts.measures[name] ?? name, estimates[name] as Estimate])} />
          ))}
          {Object.keys(after.kinds).length > 0 && <Figures title={texts.byKind} rows={Object.entries(after.kinds)} />}
          <Questions client={client} collectionId={collectionId} title={texts.wentWrong} listed={wrongOf(after)} />
        </>
      )}
    </section>
  );
}

function wrongOf({ records }: Run): Listed[] {
  return records.flatMap((record) => {
    const verdict = verdictOf(record);
    const [group = ""] = verdict === "notFound" ? missedBy(record.figures) : Object.keys(record.rankings);
    return verdict ? [{ record, group, words: texts.verdicts[verdict] }] : [];
  });
}

function namesOf(group: string, estimates: Run["measures"][string]): string[] {
  return measuresOf(group).map(({ name }) => name).filter((name) => name in estimates);
}

function titleOf(group: string): string {
  const [mode = "", strategy = ""] = group.split("+");
  const words = [texts.settingValues[`RETRIEVAL_MODE_${mode.toUpperCase()}`], texts.settingValues[`RERANK_STRATEGY_${strategy.toUpperCase()}`]];
  return words[0] ? words.filter(Boolean).join(" + ") : group === "answers" ? texts.answers : group;
}

function Notes({ run }: { run: Run }) {
  const notes = Object.entries(run.skipped).map(([what, number]) => texts.passedOver(count(number), texts.skipped[what] ?? what));
  const degraded = Object.entries(run.degraded)
    .filter(([, number]) => number)
    .map(([group, number]) => texts.degradedSearches(count(number), titleOf(group)));
  return (
    <>
      {notes.map((note) => (
        <p class="hint">{note}</p>
      ))}
      {degraded.map((note) => (
        <p class="note warn">{note}</p>
      ))}
      {run.failed > 0 && <p class="note warn">{texts.failedAnswers(count(run.failed))}</p>}
    </>
  );
}

function Figures({ title, rows }: { title: string; rows: (readonly [string, Estimate])[] }) {
  return (
    <div class="table" role="region" aria-label={title} tabIndex={0}>
      <table class="figures">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{texts.figure}</th>
            <th scope="col">{texts.value}</th>
            <th scope="col">{texts.interval}</th>
            <th scope="col">{texts.questions}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, { value, low, high, questions }]) => (
            <tr>
              <th scope="row">{name}</th>
              <td>{share(value)}</td>
              <td>
                <Interval low={low} high={high} least={0} most={1} />
                {texts.fromTo(share(low), share(high))}
              </td>
              <td>{count(questions)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Compared({ client, before, after, collectionId }: Omit<ResultsProps, "bench"> & { before: Run }) {
  const { value, problem, isLoading } = useLoaded((signal) => compare(before, after, signal), [before, after]);
  const [place, setPlace] = useState(0);
  if (problem) return <Failure problem={problem} />;
  if (!value || isLoading) return <p class="status busy">{texts.comparing}</p>;
  const { common, missing, differences } = value;
  const most = Math.max(...differences.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]), 0.01);
  const losses = differences.filter((each) => each.worse.length);
  const shown = losses[place] ?? losses[0];
  return (
    <>
      <p>
        {texts.inCommon(count(common))}
        {missing > 0 && ` ${texts.onlyBefore(count(missing))}`}
      </p>
      <div class="table" role="region" aria-label={texts.differences} tabIndex={0}>
        <table class="figures">
          <caption>{texts.differences}</caption>
          <thead>
            <tr>
              {[texts.figure, texts.beforeIt, texts.now, texts.difference, texts.chance, texts.questions].map((words) => (
                <th scope="col">{words}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {differences.map((each) => (
              <DifferenceRow difference={each} most={most} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">{texts.chanceHint}</p>
      {losses.length > 1 && (
        <label class="setting">
          {texts.worseBy}
          <select id="worse-by" value={place} onChange={(event) => setPlace(Number(event.currentTarget.value))}>
            {losses.map((each, at) => (
              <option value={at}>{`${wordsOf(each)} (${count(each.worse.length)})`}</option>
            ))}
          </select>
        </label>
      )}
      <Questions
        client={client}
        collectionId={collectionId}
        title={shown ? texts.becameWorse(wordsOf(shown)) : texts.noneBecameWorse}
        listed={(shown?.worse ?? []).map(({ record, ...each }) => ({
          record,
          group: shown?.group ?? "",
          words: texts.changedTo(share(each.before), share(each.after)),
        }))}
      />
    </>
  );
}

function DifferenceRow({ difference, most }: { difference: Difference; most: number }) {
  const { before, after, low, high, probability, questions } = difference;
  const direction = directionOf(difference);
  return (
    <tr>
      <th scope="row">{wordsOf(difference)}</th>
      <td>{share(before)}</td>
      <td>{share(after)}</td>
      <td>
        <Interval low={low} high={high} least={-most} most={most} />
        {signed(after - before)} ({texts.fromTo(signed(low), signed(high))})
        {direction !== 0 && <strong class={direction < 0 ? "bad" : ""}> {direction < 0 ? texts.worse : texts.better}</strong>}
      </td>
      <td>{share(probability)}</td>
      <td>{count(questions)}</td>
    </tr>
  );
}

function wordsOf({ group, measure: { name } }: Difference): string {
  return `${titleOf(group)}: ${texts.measures[name] ?? name}`;
}

// Where an interval lies, for the eye; the words beside it say the same.
function Interval({ low, high, least, most }: { low: number; high: number; least: number; most: number }) {
  const place = (value: number) => Math.max(0, Math.min(100, (100 * (value - least)) / (most - least)));
  return (
    <span class={least < 0 ? "interval around" : "interval"} aria-hidden="true">
      <span style={{ insetInlineStart: `${place(low)}%`, width: `${Math.max(1, place(high) - place(low))}%` }} />
    </span>
  );
}

const DIGITS = { minimumFractionDigits: 3, maximumFractionDigits: 3 } as const;
const SHARE = new Intl.NumberFormat(language, DIGITS);
const SIGNED = new Intl.NumberFormat(language, { ...DIGITS, signDisplay: "exceptZero" });

function share(value: number): string {
  return SHARE.format(value);
}

function signed(value: number): string {
  return SIGNED.format(value);
}
