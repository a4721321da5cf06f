/** Measures of rankings and of whole sets, as `groundline eval` defines them. */

import { mean, sum, type Row, type Statistic } from "./statistics";

/** Ranks at which recall is taken, and at which MRR and nDCG are cut. */
const DEPTHS = [5, 10, 20] as const;
const RANK_DEPTH = 10;
export const DEEPEST = 20;

/** Group of the figures of answers; those of searches are in groups named for their modes. */
export const ANSWERS = "answers";

/** Return each measure of a ranking, whose documents are named once each, for relevant documents by their names. */
export function rankingMeasures(ranking: readonly string[], relevance: ReadonlyMap<string, number>): Record<string, number> {
  const first = (k: number) => ranking.slice(0, k);
  const found = DEPTHS.map((k) => [`recall@${k}`, first(k).filter((each) => relevance.has(each)).length / relevance.size]);
  const place = first(RANK_DEPTH).findIndex((each) => relevance.has(each));
  const gains = first(RANK_DEPTH).map((each) => relevance.get(each) ?? 0);
  const ideal = [...relevance.values()].sort((one, other) => other - one).slice(0, RANK_DEPTH);
  return {
    ...Object.fromEntries(found),
    [`mrr@${RANK_DEPTH}`]: place < 0 ? 0 : 1 / (place + 1),
    [`ndcg@${RANK_DEPTH}`]: gained(gains) / gained(ideal),
  };
}

function gained(gains: readonly number[]): number {
  return sum(gains.map((gain, at) => gain / Math.log2(at + 2)));
}

/** A figure of a set of questions. */
export interface Measure {
  name: string;
  /** Figures of a question that it is made of. */
  columns: readonly string[];
  statistic: Statistic<Row>;
  isHigherBetter: boolean;
}

/** The first column's mean, where better is more unless `isHigherBetter` is false. */
function meanOf(name: string, isHigherBetter = true): Measure {
  return { name, columns: [name], statistic: (rows) => mean(rows.map(first)), isHigherBetter };
}

const CONFIDENCE = ["confidence", "right"] as const;
const RETRIEVAL = [
  ...DEPTHS.map((k) => meanOf(`recall@${k}`)),
  meanOf(`mrr@${RANK_DEPTH}`),
  meanOf(`ndcg@${RANK_DEPTH}`),
  ...DEPTHS.map((k) => meanOf(`content@${k}`)),
];
const OF_ANSWERS: readonly Measure[] = [
  ...["contains", "answered", "refused", "cited_precision", "cited_recall", "cited_mrr", "right", "grounded"].map((name) => meanOf(name)),
  meanOf("grounded_though_wrong", false),
  { name: "calibration_error", columns: CONFIDENCE, statistic: calibrationError, isHigherBetter: false },
  meanOf("brier", false),
  { name: "risk_coverage_area", columns: CONFIDENCE, statistic: riskCoverageArea, isHigherBetter: false },
];

export function measuresOf(group: string): readonly Measure[] {
  return group === ANSWERS ? OF_ANSWERS : RETRIEVAL;
}

/** Return a question's row for a measure; undefined without one of its figures. */
export function rowOf({ columns }: Measure, figures: Record<string, number> | undefined): Row | undefined {
  const row = columns.map((column) => figures?.[column]);
  return row.every((each) => each !== undefined) ? (row as number[]) : undefined;
}

function first(row: Row): number {
  return row[0] ?? 0;
}

const BINS = 10;

// Naeini et al., AAAI 2015.
function calibrationError(rows: readonly Row[]): number {
  const bins = Map.groupBy(rows, (row) => Math.min(Math.trunc(first(row) * BINS), BINS - 1));
  const errors = [...bins.values()].map((bin) => bin.length * Math.abs(mean(bin.map(first)) - mean(bin.map((row) => row[1] ?? 0))));
  return sum(errors) / rows.length;
}

// The mean risk over all coverages (El-Yaniv and Wiener, JMLR 2010); answers of equal confidence come together.
function riskCoverageArea(rows: readonly Row[]): number {
  const byConfidence = [...Map.groupBy(rows, first)].sort(([one], [other]) => other - one);
  let answered = 0;
  let wrong = 0;
  const areas = byConfidence.map(([, bin]) => {
    answered += bin.length;
    wrong += bin.filter((row) => !row[1]).length;
    return ((bin.length / rows.length) * wrong) / answered;
  });
  return sum(areas);
}
