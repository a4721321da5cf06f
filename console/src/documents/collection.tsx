import type { Document, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { chatAddress, documentsAddress, EVERYTHING, go, SETTINGS, SOURCES } from "../lib/address";
import { useChanges } from "../lib/changing";
import { bytes, count, moment } from "../lib/format";
import { memo } from "../lib/memo";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/failure";
import { SearchBox } from "../parts/search_box";
import { deleteSoon, useDeletions } from "../parts/undo";
import { texts } from "../texts";
import { Crumbs } from "./crumbs";
import { Crawl } from "./crawl";
import { MOST_WORDS, withWords } from "./find";
import { Jobs } from "./jobs";
import { UploadPanel } from "./upload_panel";
import { CollectionUsage } from "./usage";
import type { Uploads } from "./uploads";

const PAGE = 100;

interface CollectionProps {
  client: GroundlineClient;
  uploads: Uploads;
  collectionId: string;
}

/** The documents of a collection, and the way in for others. */
export function CollectionView({ client, uploads, collectionId }: CollectionProps) {
  useChanges(uploads);
  const [isDeleting, setDeleting] = useState(false);
  const [begun, setBegun] = useState(0);
  const [endedCount, setEndedCount] = useState(0);
  const ended = () => setEndedCount((before) => before + 1);
  const round = uploads.settled + endedCount;
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.getCollection({ collectionId }, { signal })).collection,
    [client, collectionId, round],
  );
  const name = value?.name || collectionId;
  const remove = () => {
    setDeleting(false);
    deleteSoon(collectionId, texts.deleted(name), async () => void (await client.deleteCollection({ collectionId })));
    go(documentsAddress());
  };
  return (
    <main class="wide">
      <Crumbs />
      <h2 dir="auto">{name}</h2>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && (
        <>
          <p class="row hint">
            {texts.documentsCount(count(value.documentCount))} · {texts.chunksCount(count(value.chunkCount))}
            <a class="button" href={chatAddress({ ...EVERYTHING, collectionIds: [collectionId] })}>
              {texts.askCollection}
            </a>
            <a class="button" href={documentsAddress(collectionId, SOURCES)}>
              {texts.sourcesOf}
            </a>
            <a class="button" href={documentsAddress(collectionId, SETTINGS)}>
              {texts.collectionSettings}
            </a>
            <button type="button" onClick={() => setDeleting(true)}>
              {texts.deleteCollection}
            </button>
          </p>
          <UploadPanel uploads={uploads} collectionId={collectionId} />
          <Crawl client={client} collectionId={collectionId} begun={() => setBegun(begun + 1)} ended={ended} />
          <Jobs client={client} collectionId={collectionId} round={`${uploads.settled} ${begun}`} ended={ended} />
          <CollectionUsage client={client} collectionId={collectionId} round={round} />
          <DocumentList client={client} collectionId={collectionId} round={round} />
        </>
      )}
      {isDeleting && (
        <Dialog title={texts.deleteCollection} close={() => setDeleting(false)}>
          <p>{texts.deleteCollectionHint(name, count(value?.documentCount))}</p>
          <button type="button" class="primary" onClick={remove}>
            {texts.deleteCollection}
          </button>
        </Dialog>
      )}
    </main>
  );
}

function DocumentList({ client, collectionId, round }: { client: GroundlineClient; collectionId: string; round: number }) {
  const { hidden, performed } = useDeletions();
  const [words, setWords] = useState("");
  const [orderBy, setOrderBy] = useState("uri");
  const request = { collectionId, pageSize: PAGE, orderBy, filterJson: withWords(words) };
  const first = useLoaded((signal) => client.listDocuments(request, { signal }), [client, collectionId, words, orderBy, round, performed]);
  const [more, setMore] = useState<{ of: unknown; documents: Document[]; token: string; problem?: Problem }>();
  // Further pages are those of this first one.
  const rest = more?.of === first.value ? more : undefined;
  const token = rest ? rest.token : (first.value?.nextPageToken ?? "");
  const documents = [...(first.value?.documents ?? []), ...(rest?.documents ?? [])].filter(({ documentId }) => !hidden.has(documentId));
  const next = async () => {
    const before = { of: first.value, documents: rest?.documents ?? [], token };
    try {
      const page = await client.listDocuments({ ...request, pageToken: token });
      setMore({ ...before, documents: [...before.documents, ...(page.documents ?? [])], token: page.nextPageToken ?? "" });
    } catch (error) {
      setMore({ ...before, problem: problemOf(error) });
    }
  };
  return (
    <section aria-label={texts.documents}>
      <div class="row">
        <SearchBox label={texts.findDocument} maxLength={MOST_WORDS} words={words} setWords={setWords} />
        <select aria-label={texts.order} value={orderBy} onChange={(event) => setOrderBy(event.currentTarget.value)}>
          {Object.entries(texts.orders).map(([order, label]) => (
            <option value={order}>{label}</option>
          ))}
        </select>
      </div>
      {first.problem && <Failure problem={first.problem} retry={first.reload} />}
      {first.value && !documents.length && <p class="hint">{words.trim() ? texts.noMatches : texts.noDocuments}</p>}
      {documents.length > 0 && <Table client={client} documents={documents} />}
      {rest?.problem && <Failure problem={rest.problem} retry={() => void next()} />}
      {token && (
        <button type="button" onClick={() => void next()}>
          {texts.more}
        </button>
      )}
    </section>
  );
}

function Table({ client, documents }: { client: GroundlineClient; documents: readonly Document[] }) {
  return (
    <div class="table" tabIndex={0}>
      <table id="documents">
        <thead>
          <tr>
            <th>{texts.documentTitle}</th>
            <th>{texts.state}</th>
            <th>{texts.chunks}</th>
            <th>{texts.size}</th>
            <th>{texts.changedAt}</th>
            <th>
              <span class="unseen">{texts.remove}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {documents.map((document) => (
            <Row key={document.documentId} client={client} document={document} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  client: GroundlineClient;
  document: Document;
}

// More documents leave those that are shown as they are.
const Row = memo<RowProps>(DocumentRow, (before, after) => before.client === after.client && before.document === after.document);

function DocumentRow({ client, document }: RowProps) {
  const { collectionId, documentId, title, uri, state, chunkCount, sizeBytes, updateTime, failure } = document;
  return (
    <tr>
      <td>
        <a href={documentsAddress(collectionId, documentId)} dir="auto">
          {title || uri}
        </a>
        {title && title !== uri && (
          <span class="hint" dir="auto">
            {uri}
          </span>
        )}
        {failure && <span class="reason">{failure.message}</span>}
      </td>
      <td class={failure ? "bad" : ""}>{texts.ingestionStates[state] ?? state}</td>
      <td>{count(chunkCount)}</td>
      <td>{bytes(sizeBytes)}</td>
      <td>{moment(updateTime)}</td>
      <td>
        <button type="button" class="quiet delete" aria-label={texts.deleteDocument(title || uri)} onClick={() => removeDocument(client, document)}>
          ✕
        </button>
      </td>
    </tr>
  );
}

/** Delete a document in ten seconds, unless that is taken back. */
export function removeDocument(client: GroundlineClient, { collectionId, documentId, title, uri }: Document): void {
  deleteSoon(documentId, texts.deleted(title || uri), async () => void (await client.deleteDocument({ collectionId, documentId })));
}
