import type { JsonObject } from "groundline-client";
import { language } from "../texts";

/** A type as the API's description has it, in the words of JSON Schema. */
export interface Schema {
  $ref?: string;
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  enum?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

export type Schemas = Readonly<Record<string, Schema>>;

let loading: Promise<Schemas> | undefined;

/** Words for fields and values in the reader's language, where that is not the contract's. */
let words: Readonly<Record<string, string>> = {};

async function load(): Promise<Schemas> {
  const isGerman = language.slice(0, 2).toLowerCase() === "de";
  const [response, own] = await Promise.all([fetch("openapi.json"), isGerman ? import("../texts/contract_de") : undefined]);
  words = own?.fields ?? words;
  return ((await response.json()) as { components: { schemas: Schemas } }).components.schemas;
}

/** Load the types of the API and the words for them, once. Rejects where the gateway cannot be reached. */
export function loadSchemas(): Promise<Schemas> {
  loading ??= load().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

/** Return the type behind a reference, with what is said where it is referred to. */
export function resolved(schemas: Schemas, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  const { $ref: _, ...own } = schema;
  return name ? { ...schemas[name], ...own } : schema;
}

/** "chunkSize" as "Chunk size", or as the reader's language has it. */
export function labelOf(name: string): string {
  const known = words[name];
  if (known) return known;
  const spelled = name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .replace(/\b(url|uri|bm25|s3|imap|api|llm|rrf|mmr)\b/g, (abbreviation) => abbreviation.toUpperCase());
  return spelled.charAt(0).toUpperCase() + spelled.slice(1);
}

/** The values of an enum that can be chosen, each as a person reads it, and what the contract says of it. */
export function choicesOf({ enum: values = [], description = "" }: Schema): { value: string; words: string; about: string }[] {
  const [unspecified = ""] = values;
  const prefix = unspecified.replace(/UNSPECIFIED$/, "");
  return values
    .filter((value) => value !== unspecified || !unspecified.endsWith("_UNSPECIFIED"))
    .map((value) => ({ value, words: words[value] ?? labelOf(value.replace(prefix, "").toLowerCase().replaceAll("_", " ")), about: aboutValue(description, value) }));
}

function aboutValue(description: string, value: string): string {
  return new RegExp(`^- \`${value}\`: (.*)$`, "m").exec(description)?.[1] ?? "";
}

/** What the contract says of a field, and its default apart; "" without one. */
export function explained(description = ""): { about: string; byDefault: string } {
  const found = / ?Default: `([^`]*)`\.?/.exec(description);
  return { about: description.replace(found?.[0] ?? "", "").replace(/\n[^]*/, "").trim(), byDefault: found?.[1] ?? "" };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return the object with the value at the path, or without what is there where the value is undefined. */
export function withValue(object: JsonObject, [name = "", ...rest]: readonly string[], value: unknown): JsonObject {
  const { [name]: before, ...others } = object;
  if (!rest.length) return value === undefined ? others : { ...others, [name]: value };
  return { ...others, [name]: withValue(isObject(before) ? before : {}, rest, value) };
}

/** Return the paths of the fields that differ, as deep as the contract names fields. */
export function changedPaths(schemas: Schemas, schema: Schema, before: JsonObject, after: JsonObject, prefix = ""): string[] {
  const { properties = {} } = resolved(schemas, schema);
  return Object.entries(properties).flatMap(([name, property]) => {
    const [old, now] = [before[name], after[name]];
    const path = `${prefix}${name}`;
    if (!resolved(schemas, property).properties) return JSON.stringify(old) === JSON.stringify(now) ? [] : [path];
    return changedPaths(schemas, property, isObject(old) ? old : {}, isObject(now) ? now : {}, `${path}.`);
  });
}
