import type { Collection, CollectionStats, GroundlineClient, IngestionState, QuotaUsage } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress } from "../lib/address";
import { bytes, count, percent } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { byCollection } from "./by_collection";
import { Rest } from "./rest";
import { LookAgain, Section } from "./section";

/** Collections that are asked about at first and added by the button. */
const COLLECTIONS = 100;
/** Share of a quota from which on it is marked. */
const NEARLY_USED = 0.9;

interface IndexState {
  collectionId: string;
  searchable: number;
  waiting: number;
  failed: number;
  chunks: number;
  withoutVector: number;
  vectorIndex: string;
  storage: number;
  fullest: QuotaUsage | undefined;
}

/** How far each collection's index is behind what was handed in, and what it takes. */
export function IndexesSection({ client }: { client: GroundlineClient }) {
  const [most, setMost] = useState(COLLECTIONS);
  const loaded = useLoaded(
    (signal) =>
      byCollection(
        client,
        most,
        async (collection) => indexState(collection, (await client.getCollectionStats({ collectionId: collection.collectionId }, { signal })).stats),
        signal,
      ),
    [client, most],
  );
  const { value, reload } = loaded;
  return (
    <Section
      id="indexes"
      title={operations.indexes}
      hint={operations.indexesHint}
      tools={<LookAgain reload={reload} about={operations.indexes} />}
      loaded={loaded}
    >
      {value && (
        <>
          {value.found.length ? <Table indexes={value.found} /> : <p class="hint">{texts.noCollections}</p>}
          <Rest {...value} add={() => setMost(most + COLLECTIONS)} />
        </>
      )}
    </Section>
  );
}

function indexState({ collectionId }: Collection, stats: Partial<CollectionStats> = {}): IndexState {
  const { states = [], chunkCount = 0, vectorCount = 0, storageBytes = 0, vectorIndex = "", quotas = [] } = stats;
  const sum = (is: (state: IngestionState) => boolean) =>
    states.reduce((all, { state, documentCount }) => all + (is(state) ? Number(documentCount) : 0), 0);
  const isFailed = (state: IngestionState) => state === "INGESTION_STATE_FAILED";
  const isOver = (state: IngestionState) => isFailed(state) || state === "INGESTION_STATE_DONE" || state === "INGESTION_STATE_CANCELLED";
  return {
    collectionId,
    searchable: sum((state) => state === "INGESTION_STATE_DONE"),
    waiting: sum((state) => !isOver(state)),
    failed: sum(isFailed),
    chunks: Number(chunkCount),
    withoutVector: Number(chunkCount) - Number(vectorCount),
    vectorIndex,
    storage: Number(storageBytes),
    fullest: [...quotas].sort((one, other) => share(other) - share(one))[0],
  };
}

function share({ used, limit }: QuotaUsage): number {
  return limit ? used / limit : 1;
}

function Table({ indexes }: { indexes: readonly IndexState[] }) {
  const total = (of: (index: IndexState) => number) => indexes.reduce((all, each) => all + of(each), 0);
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{operations.collection}</th>
            <th scope="col">{operations.searchable}</th>
            <th scope="col">{operations.waits}</th>
            <th scope="col">{texts.ingestionStates.INGESTION_STATE_FAILED}</th>
            <th scope="col">{texts.chunks}</th>
            <th scope="col">{operations.withoutVector}</th>
            <th scope="col">{texts.vectorIndex}</th>
            <th scope="col">{operations.storage}</th>
            <th scope="col">{operations.fullestQuota}</th>
          </tr>
        </thead>
        <tbody>
          {indexes.map((index) => (
            <tr key={index.collectionId}>
              <td>
                <a href={documentsAddress(index.collectionId)}>{index.collectionId}</a>
              </td>
              <td>{count(index.searchable)}</td>
              <td class={index.waiting ? "warn" : ""}>{count(index.waiting)}</td>
              <td class={index.failed ? "bad" : ""}>{count(index.failed)}</td>
              <td>{count(index.chunks)}</td>
              <td class={index.withoutVector ? "warn" : ""}>{count(index.withoutVector)}</td>
              <td>{operations.vectorIndexes[index.vectorIndex] ?? index.vectorIndex}</td>
              <td>{bytes(index.storage)}</td>
              <td class={index.fullest && share(index.fullest) >= NEARLY_USED ? "bad" : ""}>
                {index.fullest ? `${texts.quotas[index.fullest.quota] ?? index.fullest.quota}: ${percent(share(index.fullest))}` : "–"}
              </td>
            </tr>
          ))}
        </tbody>
        {indexes.length > 1 && (
          <tfoot>
            <tr>
              <th scope="row">{operations.total}</th>
              <td>{count(total((each) => each.searchable))}</td>
              <td>{count(total((each) => each.waiting))}</td>
              <td>{count(total((each) => each.failed))}</td>
              <td>{count(total((each) => each.chunks))}</td>
              <td>{count(total((each) => each.withoutVector))}</td>
              <td />
              <td>{bytes(total((each) => each.storage))}</td>
              <td />
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}
