import type { GroundlineClient } from "groundline-client";
import { SETTINGS, SOURCES } from "../lib/address";
import { CollectionView } from "./collection";
import { Collections } from "./collections";
import { DocumentView } from "./document";
import { SettingsView } from "./settings";
import { SourcesView } from "./sources";
import type { Uploads } from "./uploads";

interface DocumentsProps {
  client: GroundlineClient;
  uploads: Uploads;
  collectionId: string;
  documentId: string;
}

/** What there is to answer from: collections, the documents of one, one document. */
export function Documents({ client, uploads, collectionId, documentId }: DocumentsProps) {
  if (documentId === SETTINGS) return <SettingsView key={collectionId} client={client} collectionId={collectionId} />;
  if (documentId === SOURCES) return <SourcesView key={collectionId} client={client} collectionId={collectionId} />;
  if (documentId) return <DocumentView key={documentId} client={client} collectionId={collectionId} documentId={documentId} />;
  if (collectionId) return <CollectionView key={collectionId} client={client} uploads={uploads} collectionId={collectionId} />;
  return <Collections client={client} />;
}
