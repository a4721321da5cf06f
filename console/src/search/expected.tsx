import type { Document, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress } from "../lib/address";
import { percent } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { someCollectionIds } from "../documents/collections";
import { MOST_WORDS, withWords } from "../documents/find";
import { Failure } from "../parts/failure";
import { SearchBox } from "../parts/search_box";
import { texts } from "../texts";
import { reasonOf, type Expected, type Reason } from "./reason";

/** Collections that are looked through for a document, and documents that are offered. */
const MOST_COLLECTIONS = 10;
const MOST_OFFERED = 5;

interface ExpectedProps {
  client: GroundlineClient;
  searched: Parameters<typeof reasonOf>[2];
  expected: Expected | undefined;
  expect: (expected: Expected | undefined) => void;
}

/** Why a document is not among the passages: the reader names it, and the step that lost it is said. */
export function ExpectedDocument({ client, searched, expected, expect }: ExpectedProps) {
  const [words, setWords] = useState("");
  return (
    <section id="expected" class="card" aria-label={texts.expected}>
      <h3>{texts.expected}</h3>
      <SearchBox label={texts.findDocument} maxLength={MOST_WORDS} words={words} setWords={setWords} />
      {words.trim() && (
        <Offered
          client={client}
          words={words}
          collectionIds={searched.selection.collectionIds}
          choose={({ collectionId, documentId }) => {
            setWords("");
            expect({ collectionId, documentId });
          }}
        />
      )}
      {expected && <Why key={expected.documentId} client={client} searched={searched} expected={expected} />}
    </section>
  );
}

interface OfferedProps {
  client: GroundlineClient;
  words: string;
  collectionIds: readonly string[];
  choose: (document: Document) => void;
}

function Offered({ client, words, collectionIds, choose }: OfferedProps) {
  const { value, problem } = useLoaded(
    async (signal): Promise<Document[]> => {
      const ids = await someCollectionIds(client, collectionIds, MOST_COLLECTIONS, signal);
      const request = { filterJson: withWords(words), pageSize: MOST_OFFERED };
      const pages = await Promise.all(ids.map((collectionId) => client.listDocuments({ collectionId, ...request }, { signal })));
      return pages.flatMap(({ documents = [] }) => documents).slice(0, MOST_OFFERED);
    },
    [client, words],
  );
  if (problem) return <Failure problem={problem} />;
  if (value?.length === 0) return <p class="hint">{texts.noMatches}</p>;
  return (
    <ul class="offered">
      {value?.map((document) => (
        <li key={document.documentId}>
          <button type="button" class="quiet" dir="auto" onClick={() => choose(document)}>
            {document.title || document.uri}
          </button>{" "}
          <span class="hint" dir="auto">
            {document.uri}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Why({ client, searched, expected }: { client: GroundlineClient; searched: ExpectedProps["searched"]; expected: Expected }) {
  const { value, problem, isLoading, reload } = useLoaded((signal) => reasonOf(client, expected, searched, signal), [client]);
  return (
    <>
      {isLoading && <p class="status busy">{texts.working}</p>}
      {problem && <Failure problem={problem} retry={reload} />}
      {value && (
        <p id="reason" role="status">
          <a href={documentsAddress(expected.collectionId, expected.documentId)}>{texts.thisDocument}</a> {reasonText(value)}
        </p>
      )}
    </>
  );
}

function reasonText(reason: Reason): string {
  const say = texts.reasons;
  switch (reason.kind) {
    case "not_ingested":
      return say.notIngested(texts.ingestionStates[reason.state] ?? reason.state, reason.failure);
    case "found":
      return say.found(reason.place);
    case "duplicate":
      return say.duplicate(reason.place, percent(reason.similarity));
    case "cut":
      return say.cut(reason.place, texts.cutRules[reason.rule] ?? reason.rule);
    case "far":
      return say.far(reason.keyword, reason.semantic);
    case "not_found":
      return say.notFound(reason.similarity === undefined ? "" : percent(reason.similarity), reason.hasWords);
    case "missing":
      return say.missing;
    case "not_chosen":
      return say.notChosen;
    case "filtered":
      return say.filtered;
  }
}
