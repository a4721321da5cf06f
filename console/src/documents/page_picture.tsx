import type { GroundlineClient } from "groundline-client";
import { useEffect, useState } from "preact/hooks";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";

/** A rectangle on a page: its edges as shares of the page's width and height, from the top left. */
export interface Marked {
  page: number;
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Pixels; sharp at twice the width that it is shown at. */
const WIDTH = 1000;

interface PagePictureProps {
  client: GroundlineClient;
  collectionId: string;
  documentId: string;
  revision: string;
  page: number;
  boxes: readonly Marked[];
}

/** The picture of a page with rectangles marked on it; nothing where there is none. */
export function PagePicture({ client, collectionId, documentId, revision, page, boxes }: PagePictureProps) {
  const [address, setAddress] = useState("");
  const { value } = useLoaded(
    async (signal) => await (await client.getDocumentPage({ collectionId, documentId, revision, page, width: WIDTH }, { signal })).blob(),
    [client, collectionId, documentId, revision, page],
  );
  useEffect(() => {
    if (!value) return undefined;
    const made = URL.createObjectURL(value);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [value]);
  if (!address) return null;
  return (
    <figure class="page">
      <img src={address} alt={texts.pagePicture(page)} />
      {boxes
        .filter((box) => box.page === page)
        .map(({ left, top, right, bottom }) => (
          <span
            class="box"
            style={{ left: share(left), top: share(top), width: share(right - left), height: share(bottom - top) }}
          />
        ))}
    </figure>
  );
}

function share(part: number): string {
  return `${(part * 100).toFixed(2)}%`;
}
