import type { JsonObject, RerankStrategy } from "groundline-client";
import { useEffect, useState } from "preact/hooks";
import type { Expected } from "../search/reason";
import { AS_SET, parseSettings, parseStrategy, settingsText, shortened, type Settings } from "../search/settings";

/** A passage of a document, with offsets in Unicode code points. */
export interface PassagePlace {
  collectionId: string;
  documentId: string;
  startOffset: number;
  endOffset: number;
  /** The revision whose text the offsets count in; none: the one in use. */
  revision?: string | undefined;
}

/** What the page shows; the fragment of its address says it, so that a view can be linked to. */
export type Address =
  | { view: "chat"; selection: Selection; passage?: PassagePlace }
  | ({ view: "search" } & SearchPlace)
  | { view: "documents"; collectionId: string; documentId: string }
  | { view: "operations" }
  | { view: "evaluation" };

/** A search with one or two settings, and a document that is expected among what it finds. */
export interface SearchPlace {
  query: string;
  selection: Selection;
  settings: readonly Settings[];
  expected: Expected | undefined;
}

/** What a question is asked of. */
export interface Selection {
  /** None: every collection that the caller may read. */
  collectionIds: string[];
  /** "": balanced. */
  effort: "" | "EFFORT_QUICK" | "EFFORT_THOROUGH";
  /** The model that answers; "": as it is set. */
  model: string;
  /** How passages are reranked for an answer; "": as it is set. */
  strategy: RerankStrategy | "";
  /** The day at whose end, where the reader is, it was current, as 2026-01-31; "": now. */
  day: string;
  /** Conditions on metadata: of each field one of the values. */
  filter: Record<string, unknown[]>;
}

/** Answers as they are set. */
const AS_ANSWERED = { effort: "", model: "", strategy: "" } as const;

export const EVERYTHING: Selection = { collectionIds: [], ...AS_ANSWERED, day: "", filter: {} };

/** Characters of a model's name, at most. */
const MOST_MODEL = 200;

const SOURCE = /^source=([\w-]+)\/([\w-]+)\/(\d+)-(\d+)(?:@([0-9a-f]{32}))?$/;

function parseAddress(hash: string): Address {
  const text = hash.replace(/^#/, "");
  const source = SOURCE.exec(text);
  if (source) {
    const [, collectionId = "", documentId = "", start, end, revision] = source;
    return {
      view: "chat",
      selection: EVERYTHING,
      passage: { collectionId, documentId, startOffset: Number(start), endOffset: Number(end), revision },
    };
  }
  const [path = "", query = ""] = text.split("?", 2);
  const [view, collectionId = "", documentId = ""] = path.split("/").map(decoded);
  if (view === "documents") return { view, collectionId, documentId };
  if (view === "operations") return { view };
  if (view === "evaluation") return { view };
  const given = new URLSearchParams(query);
  const selection = parseSelection(given);
  return view === "search" ? { view, ...parseSearch(given, selection) } : { view: "chat", selection };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function parseSelection(query: URLSearchParams): Selection {
  const effort = query.get("effort") ?? "";
  return {
    collectionIds: query.getAll("collection"),
    effort: effort === "EFFORT_QUICK" || effort === "EFFORT_THOROUGH" ? effort : "",
    model: (query.get("model") ?? "").slice(0, MOST_MODEL),
    strategy: parseStrategy(query.get("reranking") ?? ""),
    day: parseDay(query.get("as-of") ?? ""),
    filter: parseFilter(query.get("filter")),
  };
}

function parseDay(text: string): string {
  return /^\d{4}-\d\d-\d\d$/.test(text) && endOf(text) ? text : "";
}

/** When a day ends, where the reader is, in milliseconds; NaN if there was no such day. */
function endOf(day: string): number {
  return Date.parse(`${day}T24:00:00`);
}

// An address may be anybody's: what is no filter counts as none.
function parseFilter(text: string | null): Selection["filter"] {
  try {
    const given: unknown = JSON.parse(text ?? "{}");
    if (typeof given !== "object" || given === null) return {};
    return Object.fromEntries(Object.entries(given).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1])));
  } catch {
    return {};
  }
}

function parseSearch(query: URLSearchParams, selection: Selection): SearchPlace {
  const settings = query.getAll("settings").slice(0, 2).map(parseSettings);
  const [, collectionId = "", documentId = ""] = /^([\w-]+)\/([\w-]+)$/.exec(query.get("expected") ?? "") ?? [];
  return {
    query: query.get("q") ?? "",
    selection,
    settings: settings.length ? settings : [AS_SET],
    expected: documentId ? { collectionId, documentId } : undefined,
  };
}

export function searchAddress({ query, selection, settings, expected }: SearchPlace): string {
  const fields = selectionQuery({ ...selection, ...AS_ANSWERED });
  if (query) fields.set("q", query);
  if (settings.length > 1 || settings.some((each) => settingsText(each) !== settingsText(AS_SET))) {
    for (const each of settings) fields.append("settings", settingsText(each));
  }
  if (expected) fields.set("expected", `${expected.collectionId}/${expected.documentId}`);
  return fields.size ? `#search?${fields}` : "#search";
}

export function chatAddress(selection: Selection): string {
  const query = selectionQuery(selection);
  return query.size ? `#chat?${query}` : "#chat";
}

function selectionQuery(selection: Selection): URLSearchParams {
  const query = new URLSearchParams(selection.collectionIds.map((id) => ["collection", id]));
  if (selection.effort) query.set("effort", selection.effort);
  if (selection.model) query.set("model", selection.model);
  if (selection.strategy) query.set("reranking", shortened(selection.strategy));
  if (selection.day) query.set("as-of", selection.day);
  if (Object.keys(selection.filter).length) query.set("filter", JSON.stringify(selection.filter));
  return query;
}

/** Return the condition on documents as requests have it; undefined without one. */
export function filterOf({ filter }: Selection): JsonObject | undefined {
  const fields = Object.entries(filter);
  return fields.length ? Object.fromEntries(fields.map(([field, values]) => [field, { $in: values }])) : undefined;
}

/** Return what requests ask of a selection: collections, a condition and a time. */
export function askedOf(selection: Selection): { collectionIds: string[]; filter?: JsonObject; asOf?: string } {
  const { collectionIds, day } = selection;
  const filter = filterOf(selection);
  return { collectionIds, ...(filter && { filter }), ...(day && { asOf: new Date(endOf(day)).toISOString() }) };
}

export const OPERATIONS = "#operations";

/** Stand in an address where a document's id may be, which is a UUID. */
export const SETTINGS = "settings";
export const SOURCES = "sources";

export function documentsAddress(collectionId = "", documentId = ""): string {
  return ["#documents", collectionId, documentId].filter(Boolean).map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");
}

export const EVALUATION = "#evaluation";

export function passageAddress({ collectionId, documentId, startOffset, endOffset, revision }: PassagePlace): string {
  return `#source=${collectionId}/${documentId}/${startOffset}-${endOffset}${revision ? `@${revision}` : ""}`;
}

/** Show another view, as a new entry of the history. */
export function go(address: string): void {
  location.hash = address;
}

/** Change the address of the view that is shown. */
export function become(address: string): void {
  history.replaceState(null, "", location.pathname + address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Return what the page's address says, as it changes. */
export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const look = () => setHash(location.hash);
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  return parseAddress(hash);
}
