/** Searches for the questions of a set, as `groundline eval` makes them. */

import type { GroundlineClient, Input, RerankStrategy, RetrievalMode, SearchOptions } from "groundline-client";
import { sideBySide } from "../lib/side_by_side";
import type { QuestionSet } from "./sets";

/** Ways of searching that can be measured, and of reranking, by the names that the command has for them. */
export const MODES = ["keyword", "semantic", "hybrid"] as const;
export const STRATEGIES = ["", "weighted", "cross_encoder", "api", "llm"] as const;

/** More than the deepest rank that is measured, for documents that make several chunks: a document counts once. */
const TOP_K = 50;
/** Characters of uris that one request asks for. */
const MOST_CHARACTERS = 4000;

export function groupOf(mode: string, strategy: string): string {
  return strategy ? `${mode}+${strategy}` : mode;
}

/** Return the enums of a group's name; "" for what it does not name as the command does. */
export function optionsOf(group: string): { mode: RetrievalMode | ""; strategy: RerankStrategy | "" } {
  const [mode = "", strategy = ""] = group.split("+");
  if (!(MODES as readonly string[]).includes(mode)) return { mode: "", strategy: "" };
  return { mode: `RETRIEVAL_MODE_${mode.toUpperCase()}` as RetrievalMode, strategy: `RERANK_STRATEGY_${(strategy || "none").toUpperCase()}` as RerankStrategy };
}

/** Documents that a search found, best first, and whether a part of it was skipped, failed or came late. */
export interface Found {
  uris: string[];
  isDegraded: boolean;
}

export async function found(client: GroundlineClient, query: string, collectionId: string, group: string, signal: AbortSignal): Promise<Found> {
  const { mode, strategy } = optionsOf(group);
  const options: Input<SearchOptions> = { retrieval: { ...(mode && { mode }) }, rerank: { ...(strategy && { strategy }), topK: TOP_K } };
  const { passages = [], degraded = [] } = await client.search({ query, collectionIds: [collectionId], options }, { signal });
  const uris = passages.flatMap(({ chunk }) => (chunk ? [chunk.uri ?? ""] : []));
  return { uris: [...new Set(uris)], isDegraded: degraded.length > 0 };
}

/** Return the ids of the set's judged documents that the collection has, by their uris. */
export async function knownDocuments(client: GroundlineClient, collectionId: string, set: QuestionSet, signal: AbortSignal): Promise<Map<string, string>> {
  const known = new Map<string, string>();
  const wanted = [...new Set(set.judgements.map(({ uri }) => uri))];
  const parts: string[][] = [[]];
  let length = 0;
  for (const uri of wanted) {
    length += encodeURIComponent(uri).length;
    if (length > MOST_CHARACTERS) {
      parts.push([]);
      length = encodeURIComponent(uri).length;
    }
    parts.at(-1)?.push(uri);
  }
  await sideBySide(parts, async (uris) => {
    const filterJson = JSON.stringify({ $uri: { $in: uris } });
    for await (const document of client.all("listDocuments", { collectionId, filterJson }, { signal })) known.set(document.uri, document.documentId);
  });
  return known;
}
