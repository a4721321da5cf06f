import type { GroundlineClient, Message } from "groundline-client";
import { texts } from "../texts";
import { sideBySide } from "../lib/side_by_side";
import type { Judgement, Query, QuestionSet } from "./sets";

/** Conversations that are looked through, the last used first. */
const MOST_THREADS = 500;

/**
 * Return a set of the caller's rated questions: those whose answers were good, with the documents that these cite, and
 * those that the collection does not answer. Follow-ups may not be understood alone, and are left out.
 */
export async function ratedSet(client: GroundlineClient, collectionId: string, signal: AbortSignal, looked: (done: number, all: number) => void): Promise<QuestionSet> {
  const ids: string[] = [];
  for await (const { threadId } of client.all("listThreads", {}, { signal })) {
    if (ids.length === MOST_THREADS) break;
    ids.push(threadId);
  }
  const cases = new Map<string, { query: Query; judgements: Judgement[] }>();
  let done = 0;
  await sideBySide(ids, async (threadId) => {
    const { messages = [] } = await client.getThread({ threadId, pageSize: 2 }, { signal });
    const [question, answer] = messages;
    const found = question && answer && caseOf(question, answer, collectionId);
    if (found) cases.set(threadId, found);
    done += 1;
    looked(done, ids.length);
  });
  // In the order of the conversations, whichever came first.
  const ordered = ids.flatMap((threadId) => cases.get(threadId) ?? []);
  if (!ordered.length) throw new Error(texts.noneRated);
  return { name: texts.ratings, queries: ordered.map(({ query }) => query), judgements: ordered.flatMap(({ judgements }) => judgements), empty: 0, isNew: true };
}

function caseOf(question: Message, answer: Message, collectionId: string): { query: Query; judgements: Judgement[] } | undefined {
  const { messageId: id, feedback, sources = [], citations = [], finishReason, isWithheld } = answer;
  if (question.role !== "USER" || !feedback || isWithheld) return undefined;
  const own = new Map(sources.filter((source) => source.collectionId === collectionId).map(({ number, uri }) => [number, uri]));
  if (sources.length && !own.size) return undefined;
  const isGood = feedback.rating === "RATING_GOOD";
  const cited = isGood ? [...new Set(citations.map(({ sourceNumber }) => own.get(sourceNumber)))].filter((uri) => uri !== undefined) : [];
  const isAnswerable = isGood ? finishReason !== "FINISH_REASON_NO_ANSWER" : feedback.problem !== "PROBLEM_UNANSWERABLE";
  if (isAnswerable && !cited.length) return undefined;
  const query = { id, text: question.content, answers: [], answerable: isAnswerable ? undefined : false, kind: "" };
  return { query, judgements: isAnswerable ? cited.map((uri) => ({ queryId: id, uri, relevance: 1 })) : [] };
}
