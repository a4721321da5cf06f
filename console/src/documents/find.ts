/** As much of a pattern as a filter takes, with its escapes. */
export const MOST_WORDS = 100;

/** Return the condition, as JSON, that a document's title or address has the words as they are; "" without any. */
export function withWords(words: string): string {
  const wanted = words.trim();
  if (!wanted) return "";
  const condition = { $regex: `(?i)${wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}` };
  return JSON.stringify({ $or: [{ $title: condition }, { $uri: condition }] });
}
