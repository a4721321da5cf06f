import { ApiError, type GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { Changing, useChanges } from "../lib/changing";
import { problemOf, type Problem } from "../lib/problem";
import { announce } from "../parts/announcer";
import { Failure } from "../parts/failure";
import { texts } from "../texts";

// What a browser shows and does not run.
const SHOWN = new Set(["application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp", "text/plain"]);

interface Named {
  collectionId: string;
  documentId: string;
  title: string;
  /** The revision whose original it is; none: the one in use. */
  revision?: string | undefined;
}

// Opens what browsers show without running it, and saves anything else: it must not become a page of this origin.
async function openOriginal(client: GroundlineClient, { collectionId, documentId, title, revision = "" }: Named, page: number): Promise<void> {
  const tab = open("", "_blank");
  try {
    if (tab) tab.opener = null;
    const response = await client.downloadDocument({ collectionId, documentId, revision });
    const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? "";
    const isShown = SHOWN.has(type);
    const blob = new Blob([await response.blob()], { type: isShown ? type : "application/octet-stream" });
    const address = URL.createObjectURL(blob);
    if (tab && isShown) {
      tab.location = page ? `${address}#page=${page}` : address;
      return;
    }
    const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "")?.[1];
    save(address, name ? decodeURIComponent(name) : title || "document");
    tab?.close();
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** Save content under a name. */
export function saveAs(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  save(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function save(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

/** Collections whose originals the caller may not download, though read. */
const closed = new WeakMap<GroundlineClient, Set<string>>();
const closing = new Changing();

function close(client: GroundlineClient, collectionId: string): void {
  closed.set(client, (closed.get(client) ?? new Set()).add(collectionId));
  closing.changed();
}

/**
 * The button that opens a document as it was handed in, at a page where there is one. Once the caller turns out to
 * be no reader of a collection's originals, the page alone is named.
 */
export function OpenOriginal({ client, page = 0, ...named }: Named & { client: GroundlineClient; page?: number }) {
  const [problem, setProblem] = useState<Problem>();
  useChanges(closing);
  const act = () => {
    setProblem(undefined);
    openOriginal(client, named, page).catch((error: unknown) => {
      setProblem(problemOf(error));
      if (error instanceof ApiError && error.reason === "ORIGINAL_NOT_READABLE") {
        close(client, named.collectionId);
        announce(texts.originalClosed);
      }
    });
  };
  if (closed.get(client)?.has(named.collectionId)) {
    const words = problem ? texts.originalClosed : page ? texts.page(page) : "";
    return words ? <span class="original hint">{words}</span> : null;
  }
  if (problem) return <Failure problem={problem} retry={act} />;
  return (
    <button type="button" class="original quiet" onClick={act}>
      {page ? texts.openAtPage(page) : texts.openOriginal}
    </button>
  );
}
