import { ApiError, type Collection, type GroundlineClient } from "groundline-client";

/** Collections that are asked about at once. */
const AT_ONCE = 4;

export interface ByCollection<T> {
  /** What was found of each collection, in their order. */
  found: readonly T[];
  /** Collections that the key may read, but not this of them. */
  hiddenCount: number;
  /** Whether there are more collections than were asked about. */
  hasMore: boolean;
}

/** Return what `read` finds of the first `most` collections; rejects where the key is not for any of it. */
export async function byCollection<T>(
  client: GroundlineClient,
  most: number,
  read: (collection: Collection) => Promise<T>,
  signal: AbortSignal,
): Promise<ByCollection<T>> {
  const collections: Collection[] = [];
  for await (const collection of client.all("listCollections", { pageSize: most + 1 }, { signal })) {
    if (collections.push(collection) > most) break;
  }
  const asked = collections.slice(0, most);
  const found: (T | undefined)[] = asked.map(() => undefined);
  let refusal: unknown;
  let hiddenCount = 0;
  const waiting = asked.entries();
  const work = async () => {
    for (const [index, collection] of waiting) {
      try {
        found[index] = await read(collection);
      } catch (error) {
        const status = error instanceof ApiError ? error.httpStatus : undefined;
        // What is gone was deleted meanwhile.
        if (status === 404) continue;
        if (status !== 403) throw error;
        hiddenCount += 1;
        refusal = error;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const shown = found.filter((each) => each !== undefined);
  if (refusal && !shown.length) throw refusal;
  return { found: shown, hiddenCount, hasMore: collections.length > most };
}
