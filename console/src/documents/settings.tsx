import { newRequestId, type Collection, type GroundlineClient, type JsonObject } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress, go } from "../lib/address";
import { changedPaths, loadSchemas, withValue, type Schemas } from "../lib/contract";
import { count } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { announce } from "../parts/announcer";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/failure";
import { SchemaFields } from "../parts/schema_form";
import { texts } from "../texts";
import { Crumbs } from "./crumbs";

/** Made by `groundline calibrate`, not by hand. */
const NOT_SHOWN = new Set(["calibration", "retrieval.index"]);
const SETTINGS = { $ref: "#/components/schemas/CollectionSettings" };
/** Settings that an index is built by; those of the first two change in no other way. */
const OF_THE_INDEX = ["embedding", "lexical", "chunking", "contextualization"] as const;
const ONLY_BY_INDEXING = /^(embedding|lexical)\./;

interface SettingsProps {
  client: GroundlineClient;
  collectionId: string;
}

/** The settings of a collection, in the words of the contract. */
export function SettingsView({ client, collectionId }: SettingsProps) {
  const { value, problem, reload } = useLoaded(
    async (signal) => {
      const [schemas, { collection }] = await Promise.all([loadSchemas(), client.getCollection({ collectionId }, { signal })]);
      return collection && { schemas, collection };
    },
    [client, collectionId],
  );
  return (
    <main class="wide">
      <Crumbs collectionId={collectionId} />
      <h2>{texts.collectionSettings}</h2>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && <Form key={value.collection.updateTime} client={client} {...value} reload={reload} />}
    </main>
  );
}

interface FormProps {
  client: GroundlineClient;
  schemas: Schemas;
  collection: Collection;
  reload: () => void;
}

function Form({ client, schemas, collection, reload }: FormProps) {
  const before = (collection.settings ?? {}) as unknown as JsonObject;
  const [name, setName] = useState(collection.name);
  const [settings, setSettings] = useState(before);
  const [problem, setProblem] = useState<Problem>();
  const [isIndexing, setIndexing] = useState(false);
  const changed = changedPaths(schemas, SETTINGS, before, settings);
  const saved = changed.filter((path) => !ONLY_BY_INDEXING.test(path));
  const isNamed = name !== collection.name;
  const { collectionId } = collection;
  const actOnKept = async (act: () => Promise<void>) => {
    setProblem(undefined);
    try {
      await act();
      go(documentsAddress(collectionId));
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const save = async () => {
    setProblem(undefined);
    try {
      const updateMask = [...(isNamed ? ["name"] : []), ...saved.map((path) => `settings.${path}`)].join(",");
      await client.updateCollection({ collectionId, name, settings, updateMask });
      announce(texts.saved);
      reload();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <form
      id="settings"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div class="field">
        <label for="collection-name">{texts.collectionName}</label>
        <input id="collection-name" maxLength={200} dir="auto" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </div>
      <SchemaFields
        schemas={schemas}
        schema={SETTINGS}
        value={settings}
        without={NOT_SHOWN}
        set={(path, next) => setSettings((now) => withValue(now, path, next))}
      />
      {problem && <Failure problem={problem} />}
      {changed.length > saved.length && <p class="note">{texts.onlyByIndexing}</p>}
      <div class="row">
        <button class="primary" disabled={!saved.length && !isNamed}>
          {texts.save}
        </button>
        <button type="button" onClick={() => setIndexing(true)}>
          {texts.indexAgain}
        </button>
      </div>
      {collection.hasPreviousIndex && (
        <p class="row note" id="kept-index">
          {texts.indexKept}
          <button type="button" onClick={() => void actOnKept(async () => void (await client.revertIndex({ collectionId })))}>
            {texts.indexBack}
          </button>
          <button type="button" onClick={() => void actOnKept(async () => void (await client.reclaimIndex({ collectionId })))}>
            {texts.indexGivenUp}
          </button>
        </p>
      )}
      {isIndexing && <Indexing client={client} collection={collection} settings={settings} changed={changed} close={() => setIndexing(false)} />}
    </form>
  );
}

interface IndexingProps {
  client: GroundlineClient;
  collection: Collection;
  settings: JsonObject;
  changed: readonly string[];
  close: () => void;
}

/** Says what indexing again does before it begins. */
function Indexing({ client, collection, settings, changed, close }: IndexingProps) {
  const [problem, setProblem] = useState<Problem>();
  const [hold, setHold] = useState(false);
  const [keepPrevious, setKeepPrevious] = useState(false);
  const { collectionId, documentCount, chunkCount } = collection;
  const paths = changed.filter((path) => OF_THE_INDEX.some((part) => path.startsWith(`${part}.`)));
  const begin = async () => {
    setProblem(undefined);
    try {
      const parts = Object.fromEntries(OF_THE_INDEX.map((part) => [part, settings[part] ?? {}]));
      await client.reindexCollection({ collectionId, settings: parts, hold, keepPrevious, requestId: newRequestId() });
      close();
      go(documentsAddress(collectionId));
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <Dialog title={texts.indexAgain} close={close} id="indexing">
      <p>{texts.indexAgainHint(count(documentCount), count(chunkCount))}</p>
      <p>{paths.length ? texts.indexedBy(paths.join(", ")) : texts.indexedAsBefore}</p>
      {paths.some((path) => path.startsWith("embedding.")) && <p class="note warn">{texts.scoresOfOldModel}</p>}
      <label class="choice">
        <input type="checkbox" checked={keepPrevious} onChange={() => setKeepPrevious(!keepPrevious)} />
        {texts.keepIndex}
      </label>
      <label class="choice">
        <input type="checkbox" checked={hold} onChange={() => setHold(!hold)} />
        {texts.holdIndex}
      </label>
      {problem && <Failure problem={problem} />}
      <button type="button" class="primary" onClick={() => void begin()}>
        {texts.indexAgain}
      </button>
    </Dialog>
  );
}
