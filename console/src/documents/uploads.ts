import { newRequestId, type GroundlineClient, type IngestionItem, type IngestionState } from "groundline-client";
import { Changing } from "../lib/changing";
import { problemOf } from "../lib/problem";

/** A file on its way into a collection. */
export interface Upload {
  id: string;
  collectionId: string;
  /** Its path within what was dropped; the document's address. */
  path: string;
  file: File;
  state: "waiting" | "sending" | IngestionState;
  outcome: IngestionItem["outcome"] | undefined;
  /** Why it failed or was skipped. */
  failure: string;
}

/** Files that are taken at once. */
export const MOST_FILES = 1000;
// A browser has six connections to a server, and questions need some.
const AT_ONCE = 3;

/** Files on their way, one after the other, while the page is open. */
export class Uploads extends Changing {
  entries: readonly Upload[] = [];
  /** Grows when a document has been taken in. */
  settled = 0;
  #working = 0;
  readonly #client: GroundlineClient;

  constructor(client: GroundlineClient) {
    super();
    this.#client = client;
  }

  add(collectionId: string, files: readonly { path: string; file: File }[]): void {
    const added = files.slice(0, MOST_FILES).map(
      ({ path, file }): Upload => ({ id: newRequestId(), collectionId, path, file, state: "waiting", outcome: undefined, failure: "" }),
    );
    this.#change([...this.entries, ...added]);
    while (this.#working < AT_ONCE && this.#next()) void this.#work();
  }

  retry(upload: Upload): void {
    this.#change(this.entries.filter(({ id }) => id !== upload.id));
    this.add(upload.collectionId, [upload]);
  }

  /** Take what has ended off the list. */
  clear(collectionId: string): void {
    this.#change(this.entries.filter((each) => each.collectionId !== collectionId || !hasEnded(each)));
  }

  /** Send no more; what is there stays. */
  stop(): void {
    this.entries = [];
  }

  async #work(): Promise<void> {
    this.#working += 1;
    for (let upload = this.#next(); upload; upload = this.#next()) {
      this.#update(upload.id, { state: "sending" });
      try {
        await this.#bring(upload);
      } catch (error) {
        this.#update(upload.id, { state: "INGESTION_STATE_FAILED", failure: problemOf(error).message });
      }
      this.settled += 1;
      this.#change(this.entries);
    }
    this.#working -= 1;
  }

  async #bring({ id, collectionId, path, file }: Upload): Promise<void> {
    // Without its type: browsers have it from the operating system, which may call CSV a sheet of Excel.
    const { job, item } = await this.#client.uploadDocument({ collectionId, uri: path, requestId: id }, file);
    this.#show(id, item);
    if (!job) return;
    for await (const { items = [] } of this.#client.watchJob({ jobId: job.jobId })) {
      // Files within it are items of their own.
      this.#show(id, items.find(({ itemIndex = 0 }) => itemIndex === 0));
    }
    const { items = [] } = await this.#client.getJob({ jobId: job.jobId });
    this.#show(id, items[0]);
  }

  #show(id: string, item: IngestionItem | undefined): void {
    if (item) this.#update(id, { state: item.state, outcome: item.outcome, failure: item.failure?.message ?? "" });
  }

  #next(): Upload | undefined {
    return this.entries.find(({ state }) => state === "waiting");
  }

  #update(id: string, changes: Partial<Upload>): void {
    this.#change(this.entries.map((each) => (each.id === id ? { ...each, ...changes } : each)));
  }

  #change(entries: readonly Upload[]): void {
    this.entries = entries;
    this.changed();
  }
}

export function hasEnded({ state }: Upload): boolean {
  return ["INGESTION_STATE_DONE", "INGESTION_STATE_FAILED", "INGESTION_STATE_CANCELLED"].includes(state);
}

/** The files of a drop, folders with all that is in them. */
export async function filesOf(transfer: DataTransfer): Promise<{ path: string; file: File }[]> {
  // They have to be asked for before the first wait.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const found: { path: string; file: File }[] = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: { path: string; file: File }[]): Promise<void> {
  if (found.length > MOST_FILES) return;
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // It gives a hundred at a time.
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (!part.length) return;
    for (const each of part) await walk(each, found);
  }
}
