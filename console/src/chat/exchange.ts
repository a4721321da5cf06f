import { corrected, type AnswerCorrection, type ChatCompleted, type ChatMessage, type ChatResponse, type Citation, type Correction, type Feedback, type Input, type Message, type ModelWait, type Source, type Stage } from "groundline-client";
import type { Selection } from "../lib/address";
import type { Problem } from "../lib/problem";
import { MARK_END, MARK_START } from "./markdown";

/** A question with its answer as far as it has come. */
export interface Exchange {
  /** Names it on this page. */
  id: number;
  query: string;
  /** The thread that it was asked in; "" for a new one. A retry repeats it. */
  threadId: string;
  requestId: string;
  /** What was said before it, where no thread holds that. */
  history: Turn[];
  selection: Selection;
  state: "running" | "stopped" | "failed" | "ended";
  stage: Stage | "";
  waiting: ModelWait | undefined;
  queries: string[];
  corrections: Correction[];
  missing: string;
  text: string;
  sources: Source[];
  citations: Citation[];
  /** Sentences that their sources do not support: offsets in `text` in Unicode code points. */
  unsupported: Span[];
  completed: ChatCompleted | undefined;
  problem: Problem | undefined;
  /** Thread and message of the answer, once they are known. */
  stored: { threadId: string; messageId: string } | undefined;
  /** The trace of the answer, where this page has asked for it; else "". */
  traceId: string;
  feedback: Feedback | undefined;
  /** Of an answer that was kept: what its thread says about it. */
  kept: Pick<Message, "finishReason" | "model" | "isWithheld"> | "unanswered" | undefined;
}

export type Turn = Pick<ChatMessage, "role" | "content">;

interface Span {
  startOffset: number;
  endOffset: number;
}

type Asked = Pick<Exchange, "query" | "selection" | "threadId" | "requestId" | "history">;

let last = 0;

export function asked({ query, selection, threadId, requestId, history }: Asked): Exchange {
  last += 1;
  return {
    id: last,
    query,
    threadId,
    requestId,
    history,
    selection,
    state: "running",
    stage: "",
    waiting: undefined,
    queries: [],
    corrections: [],
    missing: "",
    text: "",
    sources: [],
    citations: [],
    unsupported: [],
    completed: undefined,
    problem: undefined,
    stored: undefined,
    traceId: "",
    feedback: undefined,
    kept: undefined,
  };
}

/** A question with its answer as their thread keeps them; without an answer where there is none. */
export function recalled(question: Message, answer: Message | undefined, threadId: string, selection: Selection): Exchange {
  const begun = asked({ query: question.content, selection, threadId, requestId: "", history: [] });
  const exchange: Exchange = { ...begun, state: "ended", kept: "unanswered" };
  if (!answer) return exchange;
  return {
    ...exchange,
    text: answer.content ?? "",
    sources: answer.sources ?? [],
    citations: answer.citations ?? [],
    stored: { threadId, messageId: answer.messageId },
    feedback: answer.feedback,
    kept: answer,
  };
}

/** The exchange with one more event of its answer. */
export function taken(exchange: Exchange, event: ChatResponse): Exchange {
  if (event.started) {
    // Another one makes void what came before: the answer begins anew.
    const { threadId, messageId, traceId } = event.started;
    return { ...exchange, text: "", sources: [], unsupported: [], traceId, stored: { threadId, messageId } };
  }
  if (event.status) {
    const { stage, waiting, rewrittenQuery, subQueries, corrections, missing } = event.status;
    const queries = [rewrittenQuery, ...(subQueries ?? [])].filter(Boolean);
    return {
      ...exchange,
      stage,
      waiting,
      missing: missing ?? "",
      queries: queries.length ? queries : exchange.queries,
      corrections: corrections?.length ? corrections : exchange.corrections,
    };
  }
  if (event.sources) {
    const known = new Map(exchange.sources.map((source) => [source.number, source]));
    for (const source of event.sources.sources ?? []) known.set(source.number, source);
    return { ...exchange, sources: [...known.values()] };
  }
  if (event.delta) return { ...exchange, text: exchange.text + event.delta.text };
  if (event.unsupported) {
    const { startOffset = 0, endOffset = 0 } = event.unsupported;
    return { ...exchange, unsupported: [...exchange.unsupported, { startOffset, endOffset }] };
  }
  if (event.correction) return withCorrection(exchange, event.correction);
  if (event.completed) {
    return {
      ...exchange,
      state: "ended",
      text: event.completed.correctedAnswer || exchange.text,
      citations: event.completed.citations ?? [],
      completed: event.completed,
    };
  }
  return exchange;
}

function withCorrection(exchange: Exchange, correction: Input<AnswerCorrection>): Exchange {
  const { startOffset = 0, endOffset = 0, text = "" } = correction;
  const grown = [...text].length - (endOffset - startOffset);
  return {
    ...exchange,
    text: corrected(exchange.text, correction),
    unsupported: exchange.unsupported.flatMap((span) => {
      if (span.endOffset <= startOffset) return [span];
      if (span.startOffset < endOffset) return [];
      return [{ startOffset: span.startOffset + grown, endOffset: span.endOffset + grown }];
    }),
  };
}

/** The answer with its unsupported sentences between marks, in a form that leaves Markdown's blocks as they are. */
export function markedText({ text, unsupported }: Pick<Exchange, "text" | "unsupported">): string {
  const plain = text.replace(/[\uE000\uE001]/g, " ");
  if (!unsupported.length) return plain;
  const characters = [...plain];
  for (const { startOffset, endOffset } of [...unsupported].sort((a, b) => b.startOffset - a.startOffset)) {
    const lines = characters.slice(startOffset, endOffset).join("").split("\n");
    const marked = lines.map((line) =>
      // What makes a line an item, a heading or a quotation stays in front of the mark.
      line.replace(/^(\s*(?:[-*+] +|\d{1,9}[.)] +|#{1,6} |> ?)*)(.*\S)(\s*)$/, `$1${MARK_START}$2${MARK_END}$3`),
    );
    characters.splice(startOffset, endOffset - startOffset, marked.join("\n"));
  }
  return characters.join("");
}

/** Numbers of the sources that the answer cites. */
export function citedNumbers({ text, sources }: Pick<Exchange, "text" | "sources">): Set<number> {
  const known = new Set(sources.map((source) => source.number));
  const cited = [...text.matchAll(/\[(\d{1,3})\]/g)].map((found) => Number(found[1]));
  return new Set(cited.filter((number) => known.has(number)));
}
