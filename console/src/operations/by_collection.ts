import { ApiError, type Collection, type GroundlineClient } from "groundline-client";
import { sideBySide } from "../lib/side_by_side";

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
  await sideBySide([...asked.entries()], async ([index, collection]) => {
    try {
      found[index] = await read(collection);
    } catch (error) {
      const status = error instanceof ApiError ? error.httpStatus : undefined;
      // A collection that is gone was deleted meanwhile.
      if (status === 404) return;
      if (status !== 403) throw error;
      hiddenCount += 1;
      refusal = error;
    }
  });
  const shown = found.filter((each) => each !== undefined);
  if (refusal && !shown.length) throw refusal;
  return { found: shown, hiddenCount, hasMore: collections.length > most };
}
