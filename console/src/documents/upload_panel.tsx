import { useState } from "preact/hooks";
import { useChanges } from "../lib/changing";
import { announce } from "../parts/announcer";
import { texts } from "../texts";
import { filesOf, hasEnded, MOST_FILES, type Upload, type Uploads } from "./uploads";

/** Entries of a long list that are shown; those that failed come first. */
const SHOWN = 100;

/** Where files are dropped, and how far each has come. */
export function UploadPanel({ uploads, collectionId }: { uploads: Uploads; collectionId: string }) {
  useChanges(uploads);
  const [isOver, setOver] = useState(false);
  const [note, setNote] = useState("");
  const add = (files: { path: string; file: File }[]) => {
    setNote(files.length > MOST_FILES ? texts.tooManyFiles(MOST_FILES) : "");
    uploads.add(collectionId, files);
    announce(texts.uploading);
  };
  const choose = (input: HTMLInputElement) => {
    add([...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  };
  return (
    <section
      id="upload"
      class={isOver ? "drop over" : "drop"}
      aria-label={texts.uploads}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer) void filesOf(event.dataTransfer).then(add);
      }}
    >
      <p>{texts.dropHere}</p>
      <div class="row">
        <label class="button">
          {texts.chooseFiles}
          <input type="file" class="unseen" multiple onChange={(event) => choose(event.currentTarget)} />
        </label>
        <label class="button">
          {texts.chooseFolder}
          <input
            type="file"
            class="unseen"
            multiple
            ref={(box) => {
              if (box) box.webkitdirectory = true;
            }}
            onChange={(event) => choose(event.currentTarget)}
          />
        </label>
      </div>
      {note && <p class="note warn">{note}</p>}
      <Progress uploads={uploads} collectionId={collectionId} />
    </section>
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
