import type { GroundlineClient } from "groundline-client";
import { Changing } from "../lib/changing";
import { moment } from "../lib/format";
import { isAbort, problemOf, type Problem } from "../lib/problem";
import { sideBySide } from "../lib/side_by_side";
import { texts } from "../texts";
import { found, knownDocuments, type Found } from "./asking";
import { DEEPEST, rankingMeasures } from "./measures";
import { estimatesOf, kindsOf, readRun, type QuestionRecord, type Run } from "./runs";
import { ratedSet } from "./rated";
import { judgedQueries, readSet, type JudgedQuery, type QuestionSet } from "./sets";

/** Bytes of a file, at most. */
const MOST_BYTES = 64 << 20;

/** What is measured: of which collection, and how it is searched. */
export interface Wanted {
  collectionId: string;
  groups: readonly string[];
}

/** The set and the runs that the page has open, and the measurement that is under way. They stay in the tab. */
export class Bench extends Changing {
  set: QuestionSet | undefined;
  runs: readonly Run[] = [];
  /** Names of the run that is looked at, and of the one that it is compared with; "" for none. */
  after = "";
  before = "";
  problem: Problem | undefined;
  progress: { done: number; all: number } | undefined;
  #texts: { name: string; queries?: string; judgements?: string } = { name: "" };
  #running: AbortController | undefined;

  /** Take the files of a set, or of runs; others are passed over. */
  async take(files: readonly { path: string; file: File }[]): Promise<void> {
    this.problem = undefined;
    const isPart = ({ path }: { path: string }) => /(?:^|\/)(?:queries\.jsonl|qrels\.tsv)$/.test(path);
    const runs = files.filter(({ path }) => path.endsWith(".json"));
    const parts = files.filter(isPart);
    try {
      if (!runs.length && !parts.length) throw new Error(texts.noFilesOfSets);
      for (const { path, file } of [...parts, ...runs]) {
        if (file.size > MOST_BYTES) throw new Error(texts.fileTooLarge(path));
        if (isPart({ path })) this.#takePart(path, await file.text());
        else this.#add(readRun(file.name, await file.text()));
      }
      const { queries, judgements, name } = this.#texts;
      if (!parts.length) return;
      if (queries === undefined || judgements === undefined) throw new Error(texts.missingFile(queries === undefined ? "queries.jsonl" : "qrels.tsv"));
      this.set = readSet(name, queries, judgements);
    } catch (error) {
      this.problem = problemOf(error);
    } finally {
      this.changed();
    }
  }

  /** Make a set of the questions whose answers the caller rated. */
  takeRated(client: GroundlineClient, collectionId: string, ended: AbortSignal): Promise<void> {
    return this.#work(ended, async (signal) => {
      this.set = await ratedSet(client, collectionId, signal, (done, all) => this.#advance(done, all));
    });
  }

  /** Search for each judged question of the set in each way, and add the run. */
  async measure(client: GroundlineClient, { collectionId, groups }: Wanted, ended: AbortSignal): Promise<void> {
    const { set } = this;
    if (!set) return;
    await this.#work(ended, async (signal) => {
      const known = await knownDocuments(client, collectionId, set, signal);
      const { queries, skipped } = judgedQueries(set, new Set(known.keys()));
      if (!queries.length) throw new Error(texts.noneJudged(collectionId));
      const searches = groups.flatMap((group) => queries.map((query) => ({ group, query })));
      const results = new Map<JudgedQuery, Record<string, Found>>(queries.map((query) => [query, {}]));
      let done = 0;
      await sideBySide(searches, async ({ group, query }) => {
        const result = await found(client, query.text, collectionId, group, signal);
        (results.get(query) ?? {})[group] = result;
        done += 1;
        this.#advance(done, searches.length);
      });
      const { collection } = await client.getCollection({ collectionId }, { signal });
      const documents = Number(collection?.documentCount ?? 0);
      this.#add(runOf(set.name, collectionId, documents, skipped, groups, results));
    });
  }

  cancel(): void {
    this.#running?.abort();
  }

  /** Look at a run, beside another one or alone. */
  show(after: string, before: string): void {
    this.after = after;
    this.before = before === after ? "" : before;
    this.changed();
  }

  saved(name: string): void {
    this.runs = this.runs.map((run) => (run.name === name ? { ...run, isNew: false } : run));
    this.changed();
  }

  remove(name: string): void {
    this.runs = this.runs.filter((run) => run.name !== name);
    this.show(this.after === name ? (this.runs.at(-1)?.name ?? "") : this.after, this.before === name ? "" : this.before);
  }

  async #work(ended: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#running) return;
    this.#running = new AbortController();
    this.problem = undefined;
    this.#advance(0, 1);
    try {
      await work(AbortSignal.any([this.#running.signal, ended]));
    } catch (error) {
      if (!isAbort(error)) this.problem = problemOf(error);
    } finally {
      this.#running = undefined;
      this.progress = undefined;
      this.changed();
    }
  }

  #advance(done: number, all: number): void {
    this.progress = { done, all };
    this.changed();
  }

  #takePart(path: string, text: string): void {
    const folder = path.split("/").at(-2) ?? "";
    // Files of two sets are not put together.
    if (folder !== this.#texts.name) this.#texts = { name: folder };
    this.#texts[path.endsWith(".jsonl") ? "queries" : "judgements"] = text;
  }

  // The newest is looked at, beside the one before.
  #add(run: Run): void {
    const others = this.runs.filter(({ name }) => name !== run.name);
    this.runs = [...others, run];
    this.show(run.name, others.at(-1)?.name ?? "");
  }
}

function runOf(
  set: string,
  collectionId: string,
  documents: number,
  skipped: Record<string, number>,
  groups: readonly string[],
  results: ReadonlyMap<JudgedQuery, Readonly<Record<string, Found>>>,
): Run {
  const records = [...results].map(([{ id, text, answers, answerable, kind, relevance }, byGroup]): QuestionRecord => {
    const of = <T>(make: (uris: readonly string[]) => T) => Object.fromEntries(groups.map((group) => [group, make(byGroup[group]?.uris ?? [])]));
    return {
      id,
      text,
      answerable,
      answers,
      relevant: [...relevance.keys()],
      figures: of((uris) => rankingMeasures(uris, relevance)),
      rankings: of((uris) => uris.slice(0, DEEPEST)),
      outcome: null,
      kind,
    };
  });
  const degraded = groups.map((group) => [group, [...results.values()].filter((each) => each[group]?.isDegraded).length]);
  return {
    name: [set, collectionId, moment(new Date().toISOString())].filter(Boolean).join(" · "),
    set,
    documents,
    skipped,
    degraded: Object.fromEntries(degraded),
    failed: 0,
    kinds: kindsOf(records),
    measures: estimatesOf(records),
    records,
    lines: [],
    isNew: true,
  };
}
