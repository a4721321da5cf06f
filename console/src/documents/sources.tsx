import type { DocumentSource, GroundlineClient, IngestionJob, Input, JsonObject, UpdateSourceRequest } from "groundline-client";
import { useState } from "preact/hooks";
import { changedPaths, labelOf, loadSchemas, resolved, withValue, type Schema, type Schemas } from "../lib/contract";
import { count, moment } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { SchemaFields } from "../parts/schema_form";
import { deleteSoon, useDeletions } from "../parts/undo";
import { texts } from "../texts";
import { Crumbs } from "./crumbs";
import { Job } from "./job";

const SOURCE = { $ref: "#/components/schemas/DocumentSource" };

interface SourcesProps {
  client: GroundlineClient;
  collectionId: string;
}

/** The sources that a collection follows, and a way to follow another one. */
export function SourcesView({ client, collectionId }: SourcesProps) {
  const { hidden, performed } = useDeletions();
  const { value, problem, reload } = useLoaded(
    async (signal) => {
      const sources: DocumentSource[] = [];
      const schemas = await loadSchemas();
      for await (const source of client.all("listSources", { collectionId }, { signal })) sources.push(source);
      return { schemas, sources };
    },
    [client, collectionId, performed],
  );
  const shown = value?.sources.filter(({ sourceId }) => !hidden.has(sourceId)) ?? [];
  return (
    <main class="wide">
      <Crumbs collectionId={collectionId} />
      <h2>{texts.sourcesOf}</h2>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && !shown.length && <p class="hint">{texts.noSources}</p>}
      {value && (
        <>
          <ul class="cards" id="sources">
            {shown.map((source) => (
              <SourceItem key={source.sourceId} client={client} collectionId={collectionId} schemas={value.schemas} source={source} changed={reload} />
            ))}
          </ul>
          <details class="group" id="new-source">
            <summary>{texts.newSource}</summary>
            <SourceForm key={value.sources.length} schemas={value.schemas} before={{}} words={texts.create} save={(given) => create(client, collectionId, given).then(reload)} />
          </details>
        </>
      )}
    </main>
  );
}

// What is new is tried before it brings anything.
async function create(client: GroundlineClient, collectionId: string, given: JsonObject): Promise<void> {
  await client.createSource({ collectionId, source: { ...given, isPaused: true } as unknown as DocumentSource });
}

interface SourceItemProps extends SourcesProps {
  schemas: Schemas;
  source: DocumentSource;
  changed: () => void;
}

function SourceItem({ client, collectionId, schemas, source, changed }: SourceItemProps) {
  const [job, setJob] = useState<IngestionJob | undefined>(source.lastJob);
  const [problem, setProblem] = useState<Problem>();
  const { sourceId, name, isPaused, documentCount, nextRunTime } = source;
  const act = async (perform: () => Promise<{ job?: IngestionJob } | undefined>) => {
    setProblem(undefined);
    try {
      const reply = await perform();
      if (reply?.job) setJob(reply.job);
      else changed();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const update = async (changes: Input<UpdateSourceRequest>) => {
    await client.updateSource({ ...changes, collectionId, sourceId });
    return undefined;
  };
  const before = source as unknown as JsonObject;
  const save = async (given: JsonObject) => {
    const paths = new Set(changedPaths(schemas, SOURCE, before, given).map((path) => path.split(".")[0] ?? path));
    await update({ ...given, updateMask: [...paths].join(",") });
    changed();
  };
  return (
    <li class="card">
      <h3 dir="auto">{name}</h3>
      <span class="hint">
        {labelOf(kindOf(schemas, before) ?? "")} · {texts.documentsCount(count(documentCount))} ·{" "}
        {isPaused ? texts.paused : nextRunTime ? texts.nextRun(moment(nextRunTime)) : texts.runsWhenAsked}
      </span>
      <div class="row">
        <button type="button" class="quiet" onClick={() => void act(() => client.runSource({ collectionId, sourceId, dryRun: true }))}>
          {texts.tryFirst}
        </button>
        <button type="button" class="quiet" onClick={() => void act(() => client.runSource({ collectionId, sourceId }))}>
          {texts.runNow}
        </button>
        <button type="button" class="quiet" onClick={() => void act(() => update({ isPaused: !isPaused, updateMask: "isPaused" }))}>
          {isPaused ? texts.goOnRunning : texts.pause}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => deleteSoon(sourceId, texts.deleted(name), async () => void (await client.deleteSource({ collectionId, sourceId })))}
        >
          {texts.remove}
        </button>
      </div>
      {problem && <Failure problem={problem} />}
      {job && (
        <ul>
          <Job key={job.jobId} client={client} given={job} isOpened={job.isDryRun} />
        </ul>
      )}
      <details>
        <summary>{texts.change}</summary>
        <SourceForm schemas={schemas} before={before} words={texts.save} save={save} />
      </details>
    </li>
  );
}

// What a source reads from is one of several, of which the contract demands one.
function kindsOf(schemas: Schemas): string[] {
  return (resolved(schemas, SOURCE).oneOf ?? []).flatMap(({ required = [] }: Schema) => required);
}

function kindOf(schemas: Schemas, source: JsonObject): string | undefined {
  return kindsOf(schemas).find((kind) => source[kind] !== undefined);
}

interface SourceFormProps {
  schemas: Schemas;
  before: JsonObject;
  words: string;
  save: (source: JsonObject) => Promise<void>;
}

function SourceForm({ schemas, before, words, save }: SourceFormProps) {
  const [source, setSource] = useState(before);
  const [kind, setKind] = useState(kindOf(schemas, before) ?? "web");
  const [problem, setProblem] = useState<Problem>();
  const kinds = kindsOf(schemas);
  const { properties = {} } = resolved(schemas, SOURCE);
  const bySystem = Object.keys(properties).filter((name) => properties[name]?.description?.includes("set by the service"));
  const own = properties[kind];
  const submit = async () => {
    setProblem(undefined);
    try {
      await save({ [kind]: {}, ...Object.fromEntries(Object.entries(source).filter(([name]) => name === kind || !kinds.includes(name))) });
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const set = (path: readonly string[], value: unknown) => setSource((now) => withValue(now, path, value));
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <label class="field">
        {texts.kindOfSource}
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          {kinds.map((each) => (
            <option value={each}>{labelOf(each)}</option>
          ))}
        </select>
      </label>
      {own && <SchemaFields key={kind} schemas={schemas} schema={own} value={(source[kind] ?? {}) as JsonObject} path={[kind]} set={set} />}
      <SchemaFields schemas={schemas} schema={SOURCE} value={source} set={set} without={new Set([...kinds, ...bySystem, "isPaused"])} />
      {problem && <Failure problem={problem} />}
      <button class="primary">{words}</button>
    </form>
  );
}
