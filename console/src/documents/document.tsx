import type { Chunk, Document, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress, go } from "../lib/address";
import { bytes, count, isWebAddress, moment } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { Link } from "../chat/markdown";
import { Failure } from "../parts/failure";
import { Folded } from "../parts/folded";
import { later } from "../parts/later";
import { PagedDetails } from "../parts/paged_details";
import { texts } from "../texts";
import { Crumbs } from "./crumbs";
import { removeDocument } from "./collection";
import { History } from "./history";
import { OpenOriginal } from "./original";

/** Characters of a text, and chunks, that are shown at first and added by the button. */
const TEXT_PART = 50_000;
const CHUNKS_PART = 50;

const Tables = later(() => import("./tables/tables").then((part) => part.Tables));

interface DocumentProps {
  client: GroundlineClient;
  collectionId: string;
  documentId: string;
}

/** One document: what it says, how it is indexed, what is known of it. */
export function DocumentView({ client, collectionId, documentId }: DocumentProps) {
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.getDocument({ collectionId, documentId }, { signal })).document,
    [client, collectionId, documentId],
  );
  return (
    <main class="wide">
      <Crumbs collectionId={collectionId} />
      {problem && <Failure problem={problem} retry={reload} />}
      {value && (
        <>
          <h2 dir="auto">{value.title || value.uri}</h2>
          <p class="row">
            {value.hasOriginal && <OpenOriginal client={client} {...value} />}
            <button
              type="button"
              class="quiet"
              onClick={() => {
                removeDocument(client, value);
                go(documentsAddress(collectionId));
              }}
            >
              {texts.remove}
            </button>
          </p>
          {value.failure && <p class="note bad">{value.failure.message}</p>}
          <Facts document={value} />
          <History key={`history ${value.revision}`} client={client} document={value} changed={reload} />
          <Folded key={`tables ${value.revision}`} id="tables" words={texts.tables}>
            <Tables client={client} document={value} />
          </Folded>
          <Chunks key={`chunks ${value.revision}`} client={client} document={value} />
          <Text key={`text ${value.revision}`} client={client} document={value} />
        </>
      )}
    </main>
  );
}

function Facts({ document }: { document: Document }) {
  const { uri, state, mimeType, sourceType, sizeBytes, chunkCount, updateTime, allowedPrincipals = [], metadata = {} } = document;
  const facts: [string, string][] = [
    [texts.state, texts.ingestionStates[state] ?? state],
    [texts.type, [texts.sourceTypes[sourceType], mimeType].filter(Boolean).join(" · ")],
    [texts.size, bytes(sizeBytes)],
    [texts.chunks, count(chunkCount)],
    [texts.changedAt, moment(updateTime)],
    [texts.readers, allowedPrincipals.join(", ") || texts.everyReader],
  ];
  const about = Object.entries(metadata);
  return (
    <>
      <dl class="facts">
        <dt>{texts.address}</dt>
        <dd dir="auto">{isWebAddress(uri) ? <Link href={uri}>{uri}</Link> : uri}</dd>
        {facts.map(([name, words]) => (
          <>
            <dt>{name}</dt>
            <dd dir="auto">{words}</dd>
          </>
        ))}
      </dl>
      <h3>{texts.metadata}</h3>
      {about.length === 0 && <p class="hint">{texts.noMetadata}</p>}
      <dl class="facts">
        {about.map(([name, given]) => (
          <>
            <dt dir="auto">{name}</dt>
            <dd dir="auto">{typeof given === "string" ? given : JSON.stringify(given)}</dd>
          </>
        ))}
      </dl>
    </>
  );
}

function Text({ client, document: { collectionId, documentId } }: { client: GroundlineClient; document: Document }) {
  const [length, setLength] = useState(TEXT_PART);
  const { value, problem, reload } = useLoaded(
    (signal) => client.getDocumentText({ collectionId, documentId, maxCharacters: length }, { signal }),
    [client, collectionId, documentId, length],
  );
  return (
    <section aria-label={texts.text}>
      <h3>{texts.text}</h3>
      {problem && <Failure problem={problem} retry={reload} />}
      <div class="text" dir="auto">
        {(value?.text ?? "").replaceAll("\f", "\n")}
      </div>
      {value && (value.endOffset ?? 0) < (value.characterCount ?? 0) && (
        <button type="button" onClick={() => setLength(length + TEXT_PART)}>
          {texts.more}
        </button>
      )}
    </section>
  );
}

function Chunks({ client, document: { collectionId, documentId } }: { client: GroundlineClient; document: Document }) {
  const read = async (pageToken: string) => {
    const page = await client.listChunks({ collectionId, documentId, pageSize: CHUNKS_PART, pageToken });
    return { entries: page.chunks, next: page.nextPageToken };
  };
  return (
    <PagedDetails<Chunk> id="chunks" summary={texts.chunks} read={read}>
      {({ chunkId, chunkIndex = 0, context, text }) => (
        <li key={chunkId}>
          <strong>{texts.chunk(chunkIndex + 1)}</strong>
          {context && (
            <p class="hint" dir="auto">
              {texts.context}: {context}
            </p>
          )}
          <div class="text" dir="auto">
            {text}
          </div>
        </li>
      )}
    </PagedDetails>
  );
}
