import type { GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { EVERYTHING, go, searchAddress } from "../lib/address";
import { count } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { Failure } from "../parts/failure";
import { AS_SET } from "../search/settings";
import { texts } from "../texts";
import { optionsOf } from "./asking";
import type { QuestionRecord } from "./runs";

/** A question, what is said of it, and how it was searched for. */
export interface Listed {
  record: QuestionRecord;
  group: string;
  words: string;
}

/** Questions that are shown at first, and added by the button. */
const PART = 50;

interface QuestionsProps {
  client: GroundlineClient;
  collectionId: string;
  title: string;
  listed: readonly Listed[];
}

/** Questions of a run, each of which can be opened in the search. */
export function Questions({ client, collectionId, title, listed }: QuestionsProps) {
  const [length, setLength] = useState(PART);
  const [problem, setProblem] = useState<Problem>();
  return (
    <section id="questions" aria-label={title}>
      <h3>
        {title} {listed.length > 0 && <span class="hint">{count(listed.length)}</span>}
      </h3>
      {problem && <Failure problem={problem} />}
      <ol class="sources">
        {listed.slice(0, length).map((each, at) => (
          <li key={each.record.id}>
            <span class="number">{at + 1}</span>
            <div>
              <button
                type="button"
                class="title"
                dir="auto"
                onClick={() => {
                  setProblem(undefined);
                  open(client, collectionId, each).catch((error: unknown) => setProblem(problemOf(error)));
                }}
              >
                {each.record.text}
              </button>
              <div class="uri" dir="auto">
                {[each.words, each.record.kind, each.record.relevant.join(", ")].filter(Boolean).join(" · ")}
              </div>
            </div>
          </li>
        ))}
      </ol>
      {listed.length > length && (
        <button type="button" onClick={() => setLength(length + PART)}>
          {texts.more}
        </button>
      )}
    </section>
  );
}

/** Show the search of a question, and why the first relevant document that it lacks was not found. */
async function open(client: GroundlineClient, collectionId: string, { record, group }: Listed): Promise<void> {
  const { text, relevant, rankings } = record;
  const seen = rankings[group] ?? [];
  const wanted = relevant.find((uri) => !seen.slice(0, 10).includes(uri)) ?? relevant[0];
  const filterJson = JSON.stringify({ $uri: { $in: [wanted ?? ""] } });
  const { documents = [] } = wanted ? await client.listDocuments({ collectionId, filterJson, pageSize: 1 }) : {};
  const [document] = documents;
  go(
    searchAddress({
      query: text,
      selection: { ...EVERYTHING, collectionIds: [collectionId] },
      settings: [{ ...AS_SET, ...optionsOf(group) }],
      expected: document && { collectionId, documentId: document.documentId },
    }),
  );
}
