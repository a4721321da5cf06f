import { ApiError, type CutPassage, type GroundlineClient, type IngestionState, type SearchResponse } from "groundline-client";
import { askedOf, filterOf, type Selection } from "../lib/address";
import { optionsOf, type Settings } from "./settings";

/** Why a document is not among the passages of a search, or where it is: the first step that lost it. */
export type Reason =
  | { kind: "missing" }
  | { kind: "not_ingested"; state: IngestionState; failure: string }
  | { kind: "not_chosen" }
  | { kind: "filtered" }
  | { kind: "found"; place: number }
  | { kind: "duplicate"; place: number; similarity: number }
  | { kind: "cut"; rule: CutPassage["rule"]; place: number }
  | { kind: "far"; keyword: number; semantic: number }
  | { kind: "not_found"; similarity: number | undefined; hasWords: boolean };

export interface Expected {
  collectionId: string;
  documentId: string;
}

interface Searched {
  query: string;
  selection: Selection;
  settings: Settings;
  response: SearchResponse;
}

/** Candidates of each arm, and passages, that a search gives at most. */
const MOST_CANDIDATES = 1000;
const MOST_PASSAGES = 100;

/** Find the step of a search that lost the document. Rejects with the gateway's errors. */
export async function reasonOf(client: GroundlineClient, expected: Expected, searched: Searched, signal: AbortSignal): Promise<Reason> {
  const { collectionId, documentId } = expected;
  const { query, selection, settings, response } = searched;
  const place = (response.passages ?? []).findIndex(({ chunk }) => chunk?.documentId === documentId);
  if (place >= 0) return { kind: "found", place: place + 1 };
  const document = await documentOf(client, expected, signal);
  if (!document) return { kind: "missing" };
  const { state, failure } = document;
  // What was there before is found until the new one is.
  if (state !== "INGESTION_STATE_DONE" && !Number(document.chunkCount)) return { kind: "not_ingested", state, failure: failure?.message ?? "" };
  if (selection.collectionIds.length && !selection.collectionIds.includes(collectionId)) return { kind: "not_chosen" };
  const filter = filterOf(selection);
  const only = { $document_id: documentId };
  if (filter) {
    const filterJson = JSON.stringify({ $and: [filter, only] });
    const { documents = [] } = await client.listDocuments({ collectionId, filterJson, pageSize: 1 }, { signal });
    if (!documents.length) return { kind: "filtered" };
  }
  for (const [at, passage] of (response.passages ?? []).entries()) {
    const alternative = passage.alternatives?.find(({ chunk }) => chunk?.documentId === documentId);
    if (alternative) return { kind: "duplicate", place: at + 1, similarity: alternative.similarity };
  }
  // Its own passages, whatever else there is.
  const { mode } = settings;
  const retrieval = { ...(mode && { mode }), keywordLimit: MOST_CANDIDATES, semanticLimit: MOST_CANDIDATES };
  const rerank = { topK: MOST_PASSAGES, deduplicationThreshold: 0 };
  const asked = askedOf(selection);
  const own = await client.search({ query, ...asked, collectionIds: [collectionId], filter: only, options: { retrieval, rerank } }, { signal });
  const passages = own.passages ?? [];
  const ids = new Set(passages.map(({ chunk }) => chunk?.chunkId));
  const cut = (response.cut ?? []).find(({ chunkId }) => ids.has(chunkId));
  if (cut) return { kind: "cut", rule: cut.rule, place: cut.explanation?.fusedRank ?? 0 };
  const wide = await client.search(
    {
      query,
      ...asked,
      options: { retrieval, rerank: { ...optionsOf(settings).rerank, ...rerank, strategy: "RERANK_STRATEGY_NONE" } },
    },
    { signal },
  );
  const all = [...(wide.passages ?? []).map(({ chunk, explanation }) => ({ chunkId: chunk?.chunkId, explanation })), ...(wide.cut ?? [])];
  const places = all.filter(({ chunkId }) => ids.has(chunkId)).map(({ explanation }) => explanation);
  const best = (arm: "keyword" | "semantic") => Math.min(...places.map((each) => each?.[arm]?.rank ?? Infinity));
  if (places.length) return { kind: "far", keyword: finite(best("keyword")), semantic: finite(best("semantic")) };
  const similarities = passages.map(({ explanation }) => explanation?.semantic?.score).filter((each) => each !== undefined);
  return {
    kind: "not_found",
    similarity: similarities.length ? Math.max(...similarities) : undefined,
    hasWords: passages.some(({ explanation }) => explanation?.keyword),
  };
}

function finite(rank: number): number {
  return Number.isFinite(rank) ? rank : 0;
}

async function documentOf(client: GroundlineClient, expected: Expected, signal: AbortSignal) {
  try {
    return (await client.getDocument({ ...expected }, { signal })).document;
  } catch (error) {
    if (error instanceof ApiError && error.httpStatus === 404) return undefined;
    throw error;
  }
}
