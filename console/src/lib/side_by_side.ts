const SIDE_BY_SIDE = 4;

/** Do the work for each item, a few at a time; the first error ends it. */
export async function sideBySide<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values();
  let isBroken = false;
  const one = async () => {
    for (const item of waiting) {
      if (isBroken) return;
      await work(item).catch((error: unknown) => {
        isBroken = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one));
}
