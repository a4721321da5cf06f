import type { TableAnswerColumn, TableColumn } from "groundline-client";
import { texts } from "../../texts";

/** The value of an enum; undefined where it is not set. */
export function chosen<T extends string>(value: T | undefined): T | undefined {
  return value?.endsWith("_UNSPECIFIED") ? undefined : value;
}

/** A column of an answer in words, with its unit. */
export function columnWords({ name = "", unit = "", function: computed }: TableAnswerColumn): string {
  const by = chosen(computed);
  const words = by ? [texts.tableFunctions[by] ?? by, name].filter(Boolean).join(": ") : name;
  return unit && !words.includes(unit) ? `${words} (${unit})` : words;
}

/** A column of a table, to be chosen. */
export function nameOfColumn({ name = "", index = 0 }: TableColumn): string {
  return name || texts.column(index + 1);
}
