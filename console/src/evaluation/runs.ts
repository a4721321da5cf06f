/** Runs: what was measured of each question of a set, in files that `groundline eval` writes and takes. */

import { isObject } from "../lib/contract";
import { texts } from "../texts";
import { ANSWERS, measuresOf, rowOf, type Measure } from "./measures";
import { bootstrapInterval, mean, randomisationTest, SIGNIFICANT, type Row } from "./statistics";

/** Figures of a question by group and name. */
export type Figures = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface QuestionRecord {
  id: string;
  text: string;
  answerable: boolean;
  answers: readonly string[];
  relevant: readonly string[];
  figures: Figures;
  /** Documents found by each mode of searching, best first. */
  rankings: Readonly<Record<string, readonly string[]>>;
  /** What became of its answer, as the command has it; null where it was only searched for. */
  outcome: { error?: string } | null;
  kind: string;
}

/** A figure with the interval that it lies in at 95 %, over a number of questions. */
export interface Estimate {
  value: number;
  low: number;
  high: number;
  questions: number;
}

export interface Run {
  /** Name that the page shows, and the file has. */
  name: string;
  set: string;
  documents: number;
  skipped: Readonly<Record<string, number>>;
  degraded: Readonly<Record<string, number>>;
  failed: number;
  kinds: Readonly<Record<string, Estimate>>;
  measures: Readonly<Record<string, Readonly<Record<string, Estimate>>>>;
  records: readonly QuestionRecord[];
  /** What else a file of the command has. */
  lines: readonly unknown[];
  /** Whether it was measured here, and is in no file yet. */
  isNew: boolean;
}

/** Read a file that `groundline eval --output` or this page wrote. Throws an Error that names it. */
export function readRun(name: string, text: string): Run {
  try {
    const content: unknown = JSON.parse(text);
    if (!isObject(content) || !Array.isArray(content.records) || !isObject(content.measures)) throw new Error();
    const { set, documents, skipped, degraded, failed, kinds, measures, lines } = content;
    return {
      name,
      set: String(set ?? ""),
      documents: Number(documents ?? 0),
      skipped: numbersOf(skipped),
      degraded: numbersOf(degraded),
      failed: Number(failed ?? 0),
      kinds: isObject(kinds) ? mapped(kinds, estimateOf) : {},
      measures: mapped(measures, (group) => (isObject(group) ? mapped(group, estimateOf) : {})),
      records: content.records.map(recordOf),
      lines: Array.isArray(lines) ? lines : [],
      isNew: false,
    };
  } catch {
    throw new Error(texts.notARun(name));
  }
}

/** Return a run as a file, which the command takes as `--baseline`. */
export function runAsText({ name: _, isNew: __, records, lines, measures, kinds, ...head }: Run): string {
  const { set, documents, ...others } = head;
  const text = JSON.stringify({ set, documents, questions: records.length, ...others, kinds, lines, measures }, null, 1);
  // A line for each question, so that versions can be compared.
  const rows = records.map((record) => JSON.stringify(record)).join(",\n");
  return `${text.replace(/\n}$/, "")},\n "records": [\n${rows}\n ]\n}\n`;
}

/** Return the measures that some question has figures for, by group and name. */
export function estimatesOf(records: readonly QuestionRecord[]): Run["measures"] {
  const found: Record<string, Record<string, Estimate>> = {};
  for (const group of groupsOf(records)) {
    for (const measure of measuresOf(group)) {
      const rows = records.map(({ figures }) => rowOf(measure, figures[group])).filter((row) => row !== undefined);
      if (rows.length) (found[group] ??= {})[measure.name] = estimate(rows, measure.statistic);
    }
  }
  return found;
}

/** Return the share of questions that nothing went wrong with, by kind if the set tells kinds. */
export function kindsOf(records: readonly QuestionRecord[]): Run["kinds"] {
  const kinds = Map.groupBy(records.filter(({ kind }) => kind), ({ kind }) => kind);
  return Object.fromEntries(
    [...kinds].map(([kind, ofIt]) => [kind, estimate(ofIt.map((record) => [verdictOf(record) ? 0 : 1]), (rows) => mean(rows.map(([one = 0]) => one)))]),
  );
}

function estimate(rows: readonly Row[], statistic: Measure["statistic"]): Estimate {
  return { value: statistic(rows), ...bootstrapInterval(rows, statistic), questions: rows.length };
}

export type Verdict = keyof typeof texts.verdicts;

/** Return what went wrong with a question; undefined if nothing did. */
export function verdictOf({ figures, outcome, answers }: QuestionRecord): Verdict | undefined {
  const answer = figures[ANSWERS] ?? {};
  if (outcome?.error) return "noAnswer";
  if (answer.refused === 0) return "answered";
  if (answer.answered === 0) return "refused";
  if (answer.right === 0) return answers.length ? "notAccepted" : "notCited";
  if (answer.cited_recall === 0) return "rightNotCited";
  return missedBy(figures).length ? "notFound" : undefined;
}

/** Return the modes whose first ten documents have none that is relevant. */
export function missedBy(figures: Figures): string[] {
  return Object.keys(figures).filter((group) => group !== ANSWERS && figures[group]?.["recall@10"] === 0);
}

/** A measure before and after, over the questions that both runs have a figure of. */
export interface Difference {
  group: string;
  measure: Measure;
  before: number;
  after: number;
  /** The 95 % interval of the difference, after less before. */
  low: number;
  high: number;
  /** Probability of such a difference if nothing had changed. */
  probability: number;
  questions: number;
  /** Questions whose figure became worse, the most first. */
  worse: { record: QuestionRecord; before: number; after: number }[];
}

export interface Comparison {
  /** Questions that both have. */
  common: number;
  /** Questions that only the earlier one has. */
  missing: number;
  differences: Difference[];
}

/** Compare two runs by question. Throws an Error if they have none in common. */
export async function compare(before: Run, after: Run, signal: AbortSignal): Promise<Comparison> {
  const earlier = new Map(before.records.map((record) => [keyOf(record), record]));
  const pairs = after.records.flatMap((record) => {
    const was = earlier.get(keyOf(record));
    return was ? [{ was, record }] : [];
  });
  if (!pairs.length) throw new Error(texts.nothingInCommon);
  const differences: Difference[] = [];
  for (const group of groupsOf(after.records)) {
    for (const measure of measuresOf(group)) {
      // The page stays responsive with sets of thousands.
      await new Promise((done) => setTimeout(done));
      signal.throwIfAborted();
      const found = difference(group, measure, pairs);
      if (found) differences.push(found);
    }
  }
  return { common: pairs.length, missing: earlier.size - pairs.length, differences };
}

type Pair = { was: QuestionRecord; record: QuestionRecord };

// Figures that another program computed may differ in their last bit.
const EQUAL = 1e-9;

function difference(group: string, measure: Measure, pairs: readonly Pair[]): Difference | undefined {
  const rows = pairs.flatMap(({ was, record }) => {
    const [first, second] = [rowOf(measure, was.figures[group]), rowOf(measure, record.figures[group])];
    return first && second ? [{ first, second, record }] : [];
  });
  if (!rows.length) return undefined;
  const { statistic, isHigherBetter } = measure;
  const of = (some: typeof rows, which: "first" | "second") => statistic(some.map((row) => row[which]));
  const sign = isHigherBetter ? 1 : -1;
  const worse = rows
    .map(({ first, second, record }) => ({ record, before: statistic([first]), after: statistic([second]) }))
    .filter((each) => sign * (each.after - each.before) < -EQUAL)
    .sort((one, other) => sign * (one.after - one.before - other.after + other.before));
  return {
    group,
    measure,
    before: of(rows, "first"),
    after: of(rows, "second"),
    ...bootstrapInterval(rows, (some) => of(some as typeof rows, "second") - of(some as typeof rows, "first")),
    probability: randomisationTest(rows.map((row) => row.first), rows.map((row) => row.second), statistic),
    questions: rows.length,
    worse,
  };
}

/** Say of a difference whether it is a gain or a loss, and not by chance; 0: neither. */
export function directionOf({ before, after, probability, measure }: Difference): -1 | 0 | 1 {
  if (probability >= SIGNIFICANT || Math.abs(after - before) < EQUAL) return 0;
  return after > before === measure.isHigherBetter ? 1 : -1;
}

function groupsOf(records: readonly QuestionRecord[]): string[] {
  return [...new Set(records.flatMap(({ figures }) => Object.keys(figures)))];
}

function keyOf({ text, id }: QuestionRecord): string {
  return JSON.stringify([text, id]);
}

function mapped<T>(object: object, of: (value: unknown) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, of(value)]));
}

function numbersOf(value: unknown): Record<string, number> {
  return isObject(value) ? mapped(value, Number) : {};
}

function estimateOf(value: unknown): Estimate {
  const { value: of = 0, low = 0, high = 0, questions = 0 } = numbersOf(value);
  return { value: of, low, high, questions };
}

function recordOf(value: unknown): QuestionRecord {
  if (!isObject(value) || typeof value.id !== "string" || typeof value.text !== "string" || !isObject(value.figures)) throw new Error();
  const { id, text, answerable, answers, relevant, figures, rankings, outcome, kind } = value;
  return {
    id,
    text,
    answerable: answerable !== false,
    answers: textsOf(answers),
    relevant: textsOf(relevant),
    figures: mapped(figures, numbersOf),
    rankings: isObject(rankings) ? mapped(rankings, textsOf) : {},
    outcome: isObject(outcome) ? outcome : null,
    kind: typeof kind === "string" ? kind : "",
  };
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
