import type { Document, GroundlineClient } from "groundline-client";
import { useEffect, useRef, useState } from "preact/hooks";
import { passageAddress, type PassagePlace } from "../lib/address";
import { isWebAddress } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { CopyButton } from "../parts/copy_button";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { isDropped, Since } from "./history";
import { OpenOriginal } from "./original";
import { PagePicture, type Marked } from "./page_picture";
import { Link } from "../chat/markdown";

/** Characters of a document that are shown before and behind a passage, and added by each button. */
const AROUND = 2000;
/** As much text as the gateway gives at once. */
const MOST = 1_000_000;

interface PassageProps {
  client: GroundlineClient;
  place: PassagePlace;
  /** The sentence that was cited, if there is one. */
  quote?: string | undefined;
  page?: number;
  boxes?: readonly Marked[];
  close: () => void;
}

interface Part {
  about: Document | undefined;
  text: string[];
  from: number;
  isEnd: boolean;
  /** Whether the document has another revision by now. */
  isPast: boolean;
}

/** A passage within its document's text, with what stands around it. */
export function PassagePanel({ client, place, quote, page = 0, boxes = [], close }: PassageProps) {
  const [before, setBefore] = useState(AROUND);
  const [after, setAfter] = useState(AROUND);
  const { collectionId, documentId, startOffset, endOffset, revision = "" } = place;
  const { value, problem, reload } = useLoaded(
    async (signal): Promise<Part> => {
      const document = { collectionId, documentId };
      const from = Math.max(0, startOffset - before);
      const maxCharacters = Math.min(MOST, endOffset - from + after);
      const read = (of: string) => client.getDocumentText({ ...document, startOffset: from, maxCharacters, revision: of }, { signal });
      let isKept = true;
      const [{ document: about }, part] = await Promise.all([
        client.getDocument(document, { signal }),
        // One that is no longer kept is shown as the document is now.
        read(revision).catch((error: unknown) => {
          if (!isDropped(error)) throw error;
          isKept = false;
          return read("");
        }),
      ]);
      const isEnd = (part.endOffset ?? 0) >= (part.characterCount ?? 0);
      return { about, text: [...(part.text ?? "")], from, isEnd, isPast: isKept && revision !== "" && revision !== about?.revision };
    },
    [client, collectionId, documentId, startOffset, endOffset, revision, before, after],
  );
  const title = problem ? texts.cannotShow : value ? value.about?.title || value.about?.uri || texts.passageOf : texts.loading;
  const uri = value?.about?.uri ?? "";
  return (
    <Dialog id="passage" class="drawer" title={title} close={close} about={<Uri uri={uri} />}>
      {problem && <Failure problem={problem} retry={reload} />}
      {value && (
        <>
          <div class="row">
            {page > 0 && <span class="hint">{texts.page(page)}</span>}
            {value.about?.hasOriginal && (
              <OpenOriginal client={client} page={page} {...value.about} revision={value.isPast ? revision : ""} />
            )}
            <CopyButton text={() => new URL(passageAddress(place), location.href).href} words={texts.copyLink} />
          </div>
          {value.isPast && <Since client={client} place={place} />}
          {page > 0 && (value.about?.hasOriginal || value.isPast) && (
            <PagePicture client={client} collectionId={collectionId} documentId={documentId} revision={value.isPast ? revision : ""} page={page} boxes={boxes} />
          )}
          <PassageText part={value} place={place} quote={quote} earlier={() => setBefore(before + AROUND)} later={() => setAfter(after + AROUND)} />
        </>
      )}
    </Dialog>
  );
}

function Uri({ uri }: { uri: string }) {
  return (
    <p id="passage-uri" class="hint" dir="auto">
      {isWebAddress(uri) ? <Link href={uri}>{uri}</Link> : uri}
    </p>
  );
}

interface PassageTextProps {
  part: Part;
  place: PassagePlace;
  quote: string | undefined;
  earlier: () => void;
  later: () => void;
}

function PassageText({ part: { text, from, isEnd }, place, quote, earlier, later }: PassageTextProps) {
  const mark = useRef<HTMLElement>(null);
  useEffect(() => mark.current?.scrollIntoView({ block: "center" }), [place.startOffset, place.endOffset]);
  const [start, end] = [place.startOffset - from, place.endOffset - from];
  const cut = (first: number, last?: number) => text.slice(first, last).join("").replaceAll("\f", "\n");
  const passage = cut(start, end);
  // The passage as it was cited has the sentence; what has not was changed since.
  const at = quote ? passage.indexOf(quote) : -1;
  return (
    <>
      {quote && at < 0 && !withoutSpaces(passage).includes(withoutSpaces(quote)) && <p class="note warn">{texts.changed}</p>}
      <div id="passage-text" dir="auto">
        {from > 0 && (
          <button type="button" class="quiet" onClick={earlier}>
            {texts.earlier}
          </button>
        )}
        {cut(0, start)}
        <mark ref={mark} class="passage">
          {quote && at >= 0 ? [passage.slice(0, at), <strong>{quote}</strong>, passage.slice(at + quote.length)] : passage}
        </mark>
        {cut(end)}
        {!isEnd && (
          <button type="button" class="quiet" onClick={later}>
            {texts.later}
          </button>
        )}
      </div>
    </>
  );
}

function withoutSpaces(text: string): string {
  return text.replace(/\s+/g, "");
}
