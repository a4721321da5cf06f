import type { GroundlineClient, Quota, QuotaUsage } from "groundline-client";
import { bytes, count, number } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { Folded } from "../parts/folded";
import { texts } from "../texts";

/** What the reader has used of the quotas of questions. */
export function OwnUsage({ client }: { client: GroundlineClient }) {
  return (
    <Folded id="usage" words={texts.usage}>
      <OwnQuotas client={client} />
    </Folded>
  );
}

export function OwnQuotas({ client }: { client: GroundlineClient }) {
  const { value, problem, reload } = useLoaded(async (signal) => (await client.getQuotas({}, { signal })).quotas ?? [], [client]);
  if (!value) return problem ? <Failure problem={problem} retry={reload} /> : null;
  return <Quotas quotas={value} />;
}

interface CollectionUsageProps {
  client: GroundlineClient;
  collectionId: string;
  /** Changes when it may hold something else. */
  round: unknown;
}

/** What a collection holds, how it is searched, and what is used of its quotas. */
export function CollectionUsage(props: CollectionUsageProps) {
  return (
    <Folded id="usage" words={texts.usage}>
      <Stats {...props} />
    </Folded>
  );
}

function Stats({ client, collectionId, round }: CollectionUsageProps) {
  const { value, problem, reload } = useLoaded(
    async (signal) => (await client.getCollectionStats({ collectionId }, { signal })).stats,
    [client, collectionId, round],
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

const OF_BYTES: ReadonlySet<Quota> = new Set<Quota>(["QUOTA_BYTES"]);
const OF_DOLLARS: ReadonlySet<Quota> = new Set<Quota>(["QUOTA_COST_DAY", "QUOTA_COST_MONTH", "QUOTA_TOTAL_COST_DAY", "QUOTA_TOTAL_COST_MONTH"]);

function dollars(amount: number | string): string {
  return number(Number(amount), 2);
}

export function Quotas({ quotas }: { quotas: readonly QuotaUsage[] }) {
  if (!quotas.length) return <p class="hint">{texts.noQuotas}</p>;
  return (
    <dl class="facts">
      {quotas.map(({ quota, used, limit }) => {
        const shown = OF_BYTES.has(quota) ? bytes : OF_DOLLARS.has(quota) ? dollars : count;
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
