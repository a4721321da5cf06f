import { newRequestId, type GroundlineClient, type IngestionJob, type JsonObject, type WebCrawl } from "groundline-client";
import { useState } from "preact/hooks";
import { loadSchemas, withValue } from "../lib/contract";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { Folded } from "../parts/folded";
import { SchemaFields } from "../parts/schema_form";
import { texts } from "../texts";
import { Job } from "./job";

const CRAWL = { $ref: "#/components/schemas/WebCrawl" };

interface CrawlProps {
  client: GroundlineClient;
  collectionId: string;
  begun: () => void;
  ended: () => void;
}

/** Brings in the pages of a web site, or says first what it would bring. */
export function Crawl(props: CrawlProps) {
  return (
    <Folded id="crawl" class="group" words={texts.crawl}>
      <CrawlForm {...props} />
    </Folded>
  );
}

function CrawlForm({ client, collectionId, begun, ended }: CrawlProps) {
  const schemas = useLoaded(() => loadSchemas(), []);
  const [crawl, setCrawl] = useState<JsonObject>({});
  const [job, setJob] = useState<IngestionJob>();
  const [problem, setProblem] = useState<Problem>();
  const begin = async (dryRun: boolean) => {
    setProblem(undefined);
    setJob(undefined);
    try {
      const reply = await client.ingestDocuments({ collectionId, crawl: crawl as unknown as WebCrawl, dryRun, requestId: newRequestId() });
      setJob(reply.job);
      if (!dryRun) begun();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  if (schemas.problem) return <Failure problem={schemas.problem} retry={schemas.reload} />;
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void begin((event.submitter as HTMLButtonElement | null)?.value === "dry");
      }}
    >
      {schemas.value && (
        <SchemaFields schemas={schemas.value} schema={CRAWL} value={crawl} set={(path, value) => setCrawl((now) => withValue(now, path, value))} />
      )}
      {problem && <Failure problem={problem} />}
      <div class="row">
        <button class="primary" value="dry">
          {texts.tryFirst}
        </button>
        <button value="real">{texts.bringIn}</button>
      </div>
      {job && (
        <ul>
          <Job key={job.jobId} client={client} given={job} isOpened ended={ended} />
        </ul>
      )}
    </form>
  );
}
