/** Evaluation sets: questions, and which documents answer them, as `groundline eval` reads them. */

import { texts } from "../texts";

/** Reasons why something is passed over, as files of runs name them. */
export const EMPTY_QUERIES = "questions without text";
export const UNKNOWN_DOCUMENTS = "judgements of documents that are not there";
export const LOST_QUERIES = "questions whose documents are not there";

export interface Query {
  id: string;
  text: string;
  /** Texts of which an answer must contain one. */
  answers: readonly string[];
  /** Whether it is to be answered; not said: if it has answers or a relevant document. */
  answerable: boolean | undefined;
  kind: string;
}

/** A judgement: how relevant a document, by its uri, is to a question. */
export interface Judgement {
  queryId: string;
  uri: string;
  relevance: number;
}

export interface QuestionSet {
  name: string;
  queries: readonly Query[];
  judgements: readonly Judgement[];
  /** Number of questions without text. */
  empty: number;
  /** Whether it was made here, and is in no file yet. */
  isNew: boolean;
}

/** A question with the documents that answer it, all of them there. */
export interface JudgedQuery extends Query {
  relevance: ReadonlyMap<string, number>;
  answerable: boolean;
}

/** Read queries.jsonl and qrels.tsv. Throws an Error that names the file and the line. */
export function readSet(name: string, queriesText: string, judgementsText: string): QuestionSet {
  const rows = linesOf(queriesText).map(([number, line]) => queryOf(line, (what) => new Error(`queries.jsonl:${number}: ${what}`)));
  const queries = rows.filter((row) => row !== undefined);
  const judgements = linesOf(judgementsText).flatMap(([number, line]) => (number === 1 ? [] : [judgementOf(number, line)]));
  if (!queries.length) throw new Error(texts.noQuestions);
  return { name, queries, judgements, empty: rows.length - queries.length, isNew: false };
}

/** Return a set as the files that it is read from, by their names. */
export function setAsFiles({ queries, judgements }: QuestionSet): Record<string, string> {
  const rows = queries.map(({ id, text, answers, answerable, kind }) =>
    JSON.stringify({ id, text, ...(kind && { kind }), ...(answers.length && { answers }), answerable }),
  );
  const judged = judgements.map(({ queryId, uri, relevance }) => [queryId, uri, relevance].join("\t"));
  return { "queries.jsonl": `${rows.join("\n")}\n`, "qrels.tsv": `${["query_id\tdoc_id\trelevance", ...judged].join("\n")}\n` };
}

/** Return the questions that can be measured where these documents are, and how many of what is passed over. */
export function judgedQueries(set: QuestionSet, known: ReadonlySet<string>): { queries: JudgedQuery[]; skipped: Record<string, number> } {
  const judged = new Map<string, Map<string, number>>();
  let unknown = 0;
  for (const { queryId, uri, relevance } of set.judgements) {
    if (relevance > 0) {
      const found = judged.get(queryId) ?? new Map<string, number>();
      judged.set(queryId, found);
      if (known.has(uri)) found.set(uri, relevance);
    }
    if (!known.has(uri)) unknown += 1;
  }
  const isLost = ({ id, answerable }: Query) => judged.get(id)?.size === 0 && answerable !== false;
  const lost = set.queries.filter(isLost).length;
  const queries = set.queries
    .filter((query) => !isLost(query))
    .map((query) => {
      const relevance = judged.get(query.id) ?? new Map<string, number>();
      return { ...query, relevance, answerable: query.answerable ?? (relevance.size > 0 || query.answers.length > 0) };
    })
    .filter(({ relevance }) => relevance.size > 0);
  const skipped = Object.entries({ [EMPTY_QUERIES]: set.empty, [UNKNOWN_DOCUMENTS]: unknown, [LOST_QUERIES]: lost });
  return { queries, skipped: Object.fromEntries(skipped.filter(([, number]) => number)) };
}

function queryOf(line: string, wrong: (what: string) => Error): Query | undefined {
  let row: unknown;
  try {
    row = JSON.parse(line);
  } catch {
    throw wrong(texts.notJson);
  }
  if (typeof row !== "object" || row === null || Array.isArray(row)) throw wrong(texts.notJson);
  const { id, text, answers, answer, answerable, kind = "" } = row as Record<string, unknown>;
  if (typeof text === "string" && !text.trim()) return undefined;
  if (typeof id !== "string" || !id) throw wrong(texts.fieldMissing("id"));
  if (typeof text !== "string") throw wrong(texts.fieldMissing("text"));
  const accepted = answers ?? (answer ? [answer] : []);
  if (!Array.isArray(accepted) || !accepted.every((one) => typeof one === "string")) throw wrong(texts.fieldMissing("answers"));
  return {
    id,
    text,
    answers: accepted.filter((one) => one.trim()),
    answerable: typeof answerable === "boolean" ? answerable : undefined,
    kind: typeof kind === "string" ? kind : "",
  };
}

function judgementOf(number: number, line: string): Judgement {
  const [queryId = "", uri = "", relevance = "", ...more] = line.split("\t");
  if (more.length || !/^-?\d+$/.test(relevance)) throw new Error(`qrels.tsv:${number}: ${texts.notAJudgement}`);
  return { queryId, uri, relevance: Number(relevance) };
}

/** The lines that are not blank, with their numbers from 1. */
function linesOf(text: string): [number, string][] {
  return text
    .split(/\r\n|\r|\n/)
    .map((line, at): [number, string] => [at + 1, line])
    .filter(([, line]) => line.trim());
}
