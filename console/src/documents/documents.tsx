import type { GroundlineClient } from "groundline-client";
import { CollectionView } from "./collection";
import { Collections } from "./collections";
import { DocumentView } from "./document";
import type { Uploads } from "./uploads";

interface DocumentsProps {
  client: GroundlineClient;
  uploads: Uploads;
  collectionId: string;
  documentId: string;
}

/** What there is to answer from: collections, the documents of one, one document. */
export function Documents({ client, uploads, collectionId, documentId }: DocumentsProps) {
  if (documentId) return <DocumentView key={documentId} client={client} collectionId={collectionId} documentId={documentId} />;
  if (collectionId) return <CollectionView key={collectionId} client={client} uploads={uploads} collectionId={collectionId} />;
  return <Collections client={client} />;
}
