import type { DocumentSource, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress, SOURCES } from "../lib/address";
import { count, moment } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { byCollection } from "./by_collection";
import { LookAgain, Section } from "./section";
import { Rest } from "./rest";

/** Collections that are asked about at first and added by the button. */
const COLLECTIONS = 100;

/** The sources of all collections; first those whose last run had failures. */
export function SourcesSection({ client }: { client: GroundlineClient }) {
  const [most, setMost] = useState(COLLECTIONS);
  const loaded = useLoaded((signal) => sources(client, most, signal), [client, most]);
  const { value, reload } = loaded;
  return (
    <Section id="all-sources" title={texts.sourcesOf} tools={<LookAgain reload={reload} about={texts.sourcesOf} />} loaded={loaded}>
      {value && (
        <>
          {value.sources.length ? <Table sources={value.sources} /> : <p class="hint">{operations.noSourcesAnywhere}</p>}
          <Rest {...value} add={() => setMost(most + COLLECTIONS)} />
        </>
      )}
    </Section>
  );
}

async function sources(client: GroundlineClient, most: number, signal: AbortSignal) {
  const read = async ({ collectionId }: { collectionId: string }) => {
    const found: DocumentSource[] = [];
    for await (const source of client.all("listSources", { collectionId }, { signal })) found.push(source);
    return found;
  };
  const { found, ...rest } = await byCollection(client, most, read, signal);
  const all = found.flat();
  return { ...rest, sources: [...all.filter(isFailing), ...all.filter((each) => !isFailing(each))] };
}

function isFailing({ lastJob }: DocumentSource): boolean {
  return lastJob?.state === "JOB_STATE_FAILED" || Number(lastJob?.failedCount) > 0;
}

function Table({ sources: shown }: { sources: readonly DocumentSource[] }) {
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{operations.source}</th>
            <th scope="col">{operations.collection}</th>
            <th scope="col">{operations.lastRun}</th>
            <th scope="col">{texts.state}</th>
            <th scope="col">{operations.documents}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((source) => (
            <tr key={source.sourceId}>
              <td dir="auto">{source.name}</td>
              <td>
                <a href={documentsAddress(source.collectionId, SOURCES)}>{source.collectionId}</a>
              </td>
              <td>
                <LastRun source={source} />
              </td>
              <td>{source.isPaused ? texts.paused : source.nextRunTime ? texts.nextRun(moment(source.nextRunTime)) : texts.runsWhenAsked}</td>
              <td>{count(source.documentCount)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function LastRun({ source: { lastJob: job, ...source } }: { source: DocumentSource }) {
  if (!job) return <span class="hint">{operations.neverRan}</span>;
  return (
    <>
      <span class={isFailing({ ...source, lastJob: job }) ? "bad" : ""}>
        {texts.jobStates[job.state] ?? job.state}, {texts.jobCounts(count(job.doneCount), count(job.itemCount), Number(job.failedCount ?? 0))}
      </span>{" "}
      <time class="hint" dateTime={job.createTime}>
        {moment(job.createTime)}
      </time>
    </>
  );
}
