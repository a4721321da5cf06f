import type { GroundlineClient, Quota, QuotaUsage } from "groundline-client";
import type { ComponentChildren } from "preact";
import { useState, type Dispatch, type StateUpdater } from "preact/hooks";
import { bytes, count } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { texts } from "../texts";

/** What the reader has used of the quotas of questions. */
export function OwnUsage({ client }: { client: GroundlineClient }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Opening words={texts.usage} setOpen={setOpen}>
      {isOpen && <OwnQuotas client={client} />}
    </Opening>
  );
}

function OwnQuotas({ client }: { client: GroundlineClient }) {
  const { value, problem, reload } = useLoaded(async (signal) => (await client.getQuotas({}, { signal })).quotas ?? [], [client]);
  return (
    <>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && <Quotas quotas={value} />}
    </>
  );
}

interface CollectionUsageProps {
  client: GroundlineClient;
  collectionId: string;
}

/** What a collection holds, how it is searched, and what is used of its quotas. */
export function CollectionUsage({ client, collectionId }: CollectionUsageProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Opening words={texts.usage} setOpen={setOpen}>
      {isOpen && <Stats client={client} collectionId={collectionId} />}
    </Opening>
  );
}

function Stats({ client, collectionId }: CollectionUsageProps) {
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.getCollectionStats({ collectionId }, { signal })).stats,
    [client, collectionId],
  );
  if (!value) return problem ? <Failure problem={problem} retry={reload} /> : null;
  const { states = [], documentBytes, storageBytes, tokenCount, vectorIndex, quotas = [] } = value;
  return (
    <>
      <dl class="facts">
        {states.map(({ state, documentCount }) => (
          <>
            <dt>{texts.ingestionStates[state] ?? state}</dt>
            <dd>{texts.documentsCount(count(documentCount))}</dd>
          </>
        ))}
        <dt>{texts.handedIn}</dt>
        <dd>{bytes(documentBytes)}</dd>
        <dt>{texts.stored}</dt>
        <dd>{bytes(storageBytes)}</dd>
        <dt>{texts.tokens}</dt>
        <dd>{count(tokenCount)}</dd>
        <dt>{texts.vectorIndex}</dt>
        <dd>{texts.vectorIndexStates[vectorIndex] ?? vectorIndex}</dd>
      </dl>
      <Quotas quotas={quotas} />
    </>
  );
}

interface OpeningProps {
  words: string;
  setOpen: Dispatch<StateUpdater<boolean>>;
  children: ComponentChildren;
}

function Opening({ words, setOpen, children }: OpeningProps) {
  return (
    <details id="usage" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words}</summary>
      {children}
    </details>
  );
}

const OF_BYTES: ReadonlySet<Quota> = new Set<Quota>(["QUOTA_BYTES"]);

function Quotas({ quotas }: { quotas: readonly QuotaUsage[] }) {
  if (!quotas.length) return <p class="hint">{texts.noQuotas}</p>;
  return (
    <dl class="facts">
      {quotas.map(({ quota, used, limit }) => {
        const shown = OF_BYTES.has(quota) ? bytes : count;
        const words = texts.quotas[quota] ?? quota;
        return (
          <>
            <dt>{words}</dt>
            <dd>
              <meter value={used} max={limit} high={limit * 0.9} optimum={0} aria-label={words} /> {texts.usedOf(shown(used), shown(limit))}
            </dd>
          </>
        );
      })}
    </dl>
  );
}
