import type { GroundlineClient } from "groundline-client";
import { saveAs } from "../documents/original";
import { citedNumbers, type Exchange } from "./exchange";

/** An answer with its sources below it, as Markdown. */
export function answerAsMarkdown(exchange: Exchange): string {
  const cited = citedNumbers(exchange);
  const sources = exchange.sources
    .filter(({ number }) => cited.has(number))
    .map(({ number, title, uri }) => `[${number}] ${title || uri}${title && uri ? ` (${uri})` : ""}`);
  return [exchange.text, ...(sources.length ? [sources.join("\n")] : [])].join("\n\n");
}

/** Save a conversation as a file. */
export function saveConversation(exchanges: readonly Exchange[], format: "md" | "json"): void {
  const [content, type] =
    format === "md"
      ? [exchanges.map((each) => `## ${each.query}\n\n${answerAsMarkdown(each)}\n`).join("\n"), "text/markdown"]
      : [JSON.stringify(exchanges.map(evidence), null, 2), "application/json"];
  saveAs(`conversation.${format}`, new Blob([content], { type }));
}

/** Save signed evidence of a thread's answers, byte for byte. */
export async function saveEvidence(client: GroundlineClient, threadId: string): Promise<void> {
  const response = await client.getEvidence({ threadId });
  saveAs("evidence.json", await response.blob());
}

// What the answer was made of: the contract's own messages.
function evidence({ query, text, sources, citations, completed, stored }: Exchange) {
  return { question: query, answer: text, sources, citations, validation: completed?.validation, model: completed?.model, ...stored };
}
