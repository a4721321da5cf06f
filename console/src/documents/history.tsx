import { ApiError, type ComparedText, type Document, type GroundlineClient, type Revision } from "groundline-client";
import { useState } from "preact/hooks";
import type { PassagePlace } from "../lib/address";
import { moment } from "../lib/format";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { Failure } from "../parts/failure";
import { PagedDetails } from "../parts/paged_details";
import { texts } from "../texts";

const REVISIONS_PART = 20;

/** Whether the revision that was asked for is no longer kept. */
export function isDropped(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "REVISION_NOT_FOUND";
}

/** Two texts in one: what only the first has is crossed out, what only the second has is underlined. */
function Compared({ stretches }: { stretches: readonly ComparedText[] }) {
  return (
    <div class="text compared" dir="auto">
      {stretches.map(({ change, text = "" }) => {
        const words = text.replaceAll("\f", "\n");
        if (change === "TEXT_CHANGE_DELETED") return <del>{words}</del>;
        return change === "TEXT_CHANGE_INSERTED" ? <ins>{words}</ins> : words;
      })}
    </div>
  );
}

/** What became of a cited passage whose document has another revision by now. */
export function Since({ client, place }: { client: GroundlineClient; place: PassagePlace }) {
  const { collectionId, documentId, revision = "", startOffset, endOffset } = place;
  const { value, problem, reload } = useLoaded(
    (signal) => client.compareRevisions({ collectionId, documentId, revision, startOffset, endOffset }, { signal }),
    [client, collectionId, documentId, revision, startOffset, endOffset],
  );
  return (
    <>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && <p class={value.fate === "TEXT_FATE_SAME" || value.fate === "TEXT_FATE_MOVED" ? "note" : "note warn"}>{texts.fates[value.fate]}</p>}
      {value?.fate === "TEXT_FATE_CHANGED" && (
        <details>
          <summary>{texts.whatChanged}</summary>
          <Compared stretches={value.texts ?? []} />
        </details>
      )}
    </>
  );
}

interface HistoryProps {
  client: GroundlineClient;
  document: Document;
  /** Called when another revision is in use. */
  changed: () => void;
}

/** The revisions of a document, each with what changed since. */
export function History({ client, document: { collectionId, documentId }, changed }: HistoryProps) {
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState("");
  const putBack = async (revision: string) => {
    setProblem(undefined);
    setBusy(revision);
    try {
      const { job, item } = await client.restoreRevision({ collectionId, documentId, revision });
      let last = item;
      for await (const { items = [] } of client.watchJob({ jobId: job?.jobId ?? "" })) last = items[0] ?? last;
      if (last?.failure) setProblem({ message: last.failure.message, retryable: false, signedOut: false });
      else changed();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy("");
  };
  const read = async (pageToken: string) => {
    const page = await client.listRevisions({ collectionId, documentId, pageSize: REVISIONS_PART, pageToken });
    return { entries: page.revisions, next: page.nextPageToken };
  };
  return (
    <>
      {problem && <Failure problem={problem} />}
      <PagedDetails<Revision> id="history" summary={texts.revisions} hint={texts.revisionsHint} read={read}>
        {({ revision, isCurrent, storeTime, replaceTime, provenance }) => (
          <li key={revision}>
            <strong>{texts.since(moment(storeTime))}</strong> {isCurrent ? texts.inUse : texts.until(moment(replaceTime))}
            {provenance?.storedBy && <span class="hint"> {texts.storedBy(provenance.storedBy)}</span>}
            {!isCurrent && (
              <>
                <button type="button" class="quiet put-back" disabled={busy !== ""} aria-busy={busy === revision} onClick={() => void putBack(revision)}>
                  {busy === revision ? texts.puttingBack : texts.putBack}
                </button>
                <Difference client={client} collectionId={collectionId} documentId={documentId} revision={revision} />
              </>
            )}
          </li>
        )}
      </PagedDetails>
    </>
  );
}

interface DifferenceProps {
  client: GroundlineClient;
  collectionId: string;
  documentId: string;
  revision: string;
}

function Difference(props: DifferenceProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{texts.whatChanged}</summary>
      {isOpen && <Differing {...props} />}
    </details>
  );
}

function Differing({ client, collectionId, documentId, revision }: DifferenceProps) {
  const { value, problem, reload } = useLoaded(
    (signal) => client.compareRevisions({ collectionId, documentId, revision }, { signal }),
    [client, collectionId, documentId, revision],
  );
  if (problem) return <Failure problem={problem} retry={reload} />;
  if (!value) return <p class="hint">{texts.loading}</p>;
  if (value.fate === "TEXT_FATE_SAME") return <p class="hint">{texts.sameText}</p>;
  return (
    <>
      <Compared stretches={value.texts ?? []} />
      {value.isCut && <p class="hint">{texts.moreChanged}</p>}
    </>
  );
}
