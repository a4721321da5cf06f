import { newRequestId, type Collection, type GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { documentsAddress, go } from "../lib/address";
import { count, moment } from "../lib/format";
import { languages } from "../lib/languages";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { Jobs } from "./jobs";
import { OwnUsage } from "./usage";
import { useDeletions } from "../parts/undo";
import { texts } from "../texts";

/** Every collection that the caller may read, and a way to make one. */
export function Collections({ client }: { client: GroundlineClient }) {
  const { hidden, performed } = useDeletions();
  const { value, problem, isLoading, reload } = useLoaded((signal) => allCollections(client, signal), [client, performed]);
  const shown = value?.filter(({ collectionId }) => !hidden.has(collectionId));
  return (
    <main class="wide">
      <h2>{texts.collections}</h2>
      <Create client={client} />
      {problem && <Failure problem={problem} retry={reload} />}
      {isLoading && !value && <p class="hint">{texts.loading}</p>}
      {shown?.length === 0 && <p class="hint">{texts.noCollections}</p>}
      <ul class="cards" id="collections">
        {shown?.map(({ collectionId, name, documentCount, chunkCount, updateTime }) => (
          <li key={collectionId} class="card">
            <a href={documentsAddress(collectionId)} dir="auto">
              {name || collectionId}
            </a>
            <span class="hint">
              {texts.documentsCount(count(documentCount))} · {texts.chunksCount(count(chunkCount))}
            </span>
            <time class="hint" dateTime={updateTime}>
              {moment(updateTime)}
            </time>
          </li>
        ))}
      </ul>
      <Jobs client={client} collectionId="" round={performed} />
      <OwnUsage client={client} />
    </main>
  );
}

/** Every collection that the caller may read, page after page. */
export async function allCollections(client: GroundlineClient, signal: AbortSignal): Promise<Collection[]> {
  const found: Collection[] = [];
  for await (const collection of client.all("listCollections", {}, { signal })) found.push(collection);
  return found;
}

/** The first of the chosen collections, or without any of those that the caller may read, by id. */
export async function someCollectionIds(
  client: GroundlineClient,
  chosen: readonly string[],
  most: number,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (chosen.length) return chosen.slice(0, most);
  const { collections = [] } = await client.listCollections({ pageSize: most }, { signal });
  return collections.map(({ collectionId }) => collectionId);
}

function Create({ client }: { client: GroundlineClient }) {
  const [problem, setProblem] = useState<Problem>();
  const create = async (name: string, spoken: string) => {
    setProblem(undefined);
    try {
      const settings = { lexical: { language: spoken } };
      const { collection } = await client.createCollection({ name, settings, requestId: newRequestId() });
      if (collection) go(documentsAddress(collection.collectionId));
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        const name = String(given.get("name")).trim();
        if (name) void create(name, String(given.get("language")));
      }}
    >
      <input name="name" maxLength={200} required aria-label={texts.collectionName} placeholder={texts.collectionName} dir="auto" />
      <select name="language" aria-label={texts.collectionLanguage} title={texts.collectionLanguage}>
        {languages().map(({ name, shown, isOwn }) => (
          <option key={name} value={name} selected={isOwn}>
            {shown}
          </option>
        ))}
      </select>
      <button>{texts.newCollection}</button>
      {problem && <Failure problem={problem} />}
    </form>
  );
}
