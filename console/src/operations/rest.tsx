import { texts } from "../texts";
import { operations } from "../texts/operations";

interface RestProps {
  hiddenCount: number;
  hasMore: boolean;
  add: () => void;
}

/** What a section does not show of all collections, and the way to more. */
export function Rest({ hiddenCount, hasMore, add }: RestProps) {
  return (
    <>
      {hiddenCount > 0 && <p class="hint">{operations.notShown(hiddenCount)}</p>}
      {hasMore && (
        <button type="button" onClick={add}>
          {texts.more}
        </button>
      )}
    </>
  );
}
