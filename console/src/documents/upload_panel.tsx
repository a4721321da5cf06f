import { useState } from "preact/hooks";
import { useChanges } from "../lib/changing";
import { announce } from "../parts/announcer";
import { Drop } from "../parts/drop";
import { texts } from "../texts";
import { hasEnded, MOST_FILES, type Upload, type Uploads } from "./uploads";

/** Entries of a long list that are shown; those that failed come first. */
const SHOWN = 100;

/** Where files are dropped, and how far each has come. */
export function UploadPanel({ uploads, collectionId }: { uploads: Uploads; collectionId: string }) {
  useChanges(uploads);
  const [note, setNote] = useState("");
  const add = (files: { path: string; file: File }[]) => {
    setNote(files.length > MOST_FILES ? texts.tooManyFiles(MOST_FILES) : "");
    uploads.add(collectionId, files);
    announce(texts.uploading);
  };
  return (
    <Drop id="upload" label={texts.uploads} words={texts.dropHere} add={add}>
      {note && <p class="note warn">{note}</p>}
      <Progress uploads={uploads} collectionId={collectionId} />
    </Drop>
  );
}

function Progress({ uploads, collectionId }: { uploads: Uploads; collectionId: string }) {
  const entries = uploads.entries.filter((each) => each.collectionId === collectionId);
  if (!entries.length) return null;
  const ended = entries.filter(hasEnded);
  const failed = ended.filter(({ state }) => state === "INGESTION_STATE_FAILED");
  const others = entries.filter((each) => !failed.includes(each));
  return (
    <>
      <p role="status">
        <progress max={entries.length} value={ended.length} aria-label={texts.uploads} />{" "}
        {texts.uploadsDone(ended.length - failed.length, failed.length)}
      </p>
      <ul class="uploads">
        {[...failed, ...others].slice(0, SHOWN).map((upload) => (
          <li key={upload.id}>
            <span dir="auto">{upload.path}</span>
            <span class={failed.includes(upload) ? "state bad" : "state"}>{stateText(upload)}</span>
            {upload.failure && <span class="reason">{upload.failure}</span>}
            {failed.includes(upload) && (
              <button type="button" class="quiet" onClick={() => uploads.retry(upload)}>
                {texts.tryAgain}
              </button>
            )}
          </li>
        ))}
      </ul>
      {ended.length > 0 && (
        <button type="button" class="quiet" onClick={() => uploads.clear(collectionId)}>
          {texts.dismiss}
        </button>
      )}
    </>
  );
}

function stateText({ state, outcome }: Upload): string {
  if (state === "waiting") return texts.ingestionStates.INGESTION_STATE_QUEUED ?? state;
  if (state === "sending") return texts.uploading;
  const word = texts.ingestionStates[state] ?? state;
  const effect = outcome && texts.outcomes[outcome];
  return effect ? `${word} · ${effect}` : word;
}
