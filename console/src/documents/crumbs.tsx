import { documentsAddress } from "../lib/address";
import { texts } from "../texts";

/** The way back to all collections, and to the one that a view belongs to. */
export function Crumbs({ collectionId }: { collectionId?: string }) {
  return (
    <p class="crumbs">
      <a href={documentsAddress()}>{texts.collections}</a>
      {collectionId && (
        <>
          {" / "}
          <a href={documentsAddress(collectionId)}>{collectionId}</a>
        </>
      )}
    </p>
  );
}
