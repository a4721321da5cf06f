import type { GroundlineClient, Source } from "groundline-client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { become, chatAddress, passageAddress, type PassagePlace, type Selection } from "../lib/address";
import { useChanges } from "../lib/changing";
import { problemOf, type Problem } from "../lib/problem";
import { PassagePanel } from "../documents/passage";
import { Failure } from "../parts/failure";
import { texts } from "../texts";
import { Composer } from "./composer";
import type { Conversation } from "./conversation";
import type { Exchange } from "./exchange";
import { ExchangeView, stageText } from "./exchange_view";
import { saveConversation, saveEvidence } from "./export";
import { pageOf, quotesOf } from "./sources";
import { Threads } from "./threads";

interface ChatProps {
  client: GroundlineClient;
  conversation: Conversation;
  selection: Selection;
  /** A passage that the page's address leads to. */
  linked: PassagePlace | undefined;
  draft: string;
  setDraft: (text: string) => void;
}

/** Questions and answers, with the conversations before them. */
export function Chat({ client, conversation, selection, linked, draft, setDraft }: ChatProps) {
  useChanges(conversation);
  const [isListed, setListed] = useState(false);
  const [shown, setShown] = useState<{ source: Source; exchange: Exchange }>();
  const [problem, setProblem] = useState<Problem>();
  const { exchanges, isRunning } = conversation;
  const newest = exchanges.at(-1);
  const list = useRef<HTMLDivElement>(null);
  useFollowing(list, exchanges);

  const setSelection = (next: Selection) => become(chatAddress(next));
  const open = (threadId: string) => {
    setProblem(undefined);
    conversation.open(threadId).then(
      () => setListed(false),
      (error: unknown) => setProblem(problemOf(error)),
    );
  };
  const begin = () => {
    conversation.reset();
    setListed(false);
    document.getElementById("query")?.focus();
  };
  return (
    <div class={isListed ? "chat listed" : "chat"}>
      <aside>
        <Threads
          client={client}
          round={`${conversation.threadId} ${isListed}`}
          current={conversation.threadId}
          open={open}
          forgotten={(threadId) => threadId === conversation.threadId && conversation.reset()}
        />
      </aside>
      <main>
        <div class="bar">
          <button id="history-toggle" type="button" aria-expanded={isListed} aria-controls="history" onClick={() => setListed(!isListed)}>
            {texts.history}
          </button>
          {exchanges.length > 0 && (
            <>
              <button id="new-chat" type="button" onClick={begin}>
                {texts.newChat}
              </button>
              <Export
                exchanges={exchanges}
                saveSigned={
                  conversation.threadId
                    ? () => {
                        setProblem(undefined);
                        saveEvidence(client, conversation.threadId).catch((error: unknown) => setProblem(problemOf(error)));
                      }
                    : undefined
                }
              />
            </>
          )}
        </div>
        {problem && <Failure problem={problem} />}
        {exchanges.length === 0 && (
          <div id="empty">
            <p>{texts.welcome}</p>
            <p class="hint">{texts.welcomeHint}</p>
          </div>
        )}
        <div id="conversation" ref={list}>
          {exchanges.map((exchange) => (
            <ExchangeView
              key={exchange.id}
              exchange={exchange}
              client={client}
              isBusy={isRunning}
              open={(source) => setShown({ source, exchange })}
              retry={() => void conversation.retry(exchange)}
              selection={selection}
              askInstead={(query, selection) => void conversation.askInstead(exchange, query, selection)}
              rate={(feedback) => conversation.rate(exchange, feedback)}
            />
          ))}
        </div>
        <Composer
          client={client}
          draft={draft}
          setDraft={setDraft}
          isRunning={isRunning}
          status={newest ? stageText(newest) : ""}
          selection={selection}
          setSelection={setSelection}
          stop={() => conversation.stop()}
          ask={(query) => {
            setDraft("");
            setListed(false);
            void conversation.ask(query, selection);
          }}
        />
      </main>
      {linked && <PassagePanel key={passageAddress(linked)} client={client} place={linked} close={() => become("")} />}
      {shown && <CitedPassage client={client} {...shown} close={() => setShown(undefined)} />}
    </div>
  );
}

function CitedPassage({ client, source, exchange, close }: { client: GroundlineClient; source: Source; exchange: Exchange; close: () => void }) {
  const { collectionId, documentId, startOffset = 0, endOffset = 0, revision } = source;
  const boxes = exchange.citations.filter(({ sourceNumber }) => sourceNumber === source.number).flatMap((citation) => citation.boxes ?? []);
  return (
    <PassagePanel
      client={client}
      place={{ collectionId, documentId, startOffset, endOffset, revision }}
      quote={quotesOf(source, exchange.citations)[0]}
      page={pageOf(source, exchange.citations)}
      boxes={boxes}
      close={close}
    />
  );
}

function Export({ exchanges, saveSigned }: { exchanges: readonly Exchange[]; saveSigned: (() => void) | undefined }) {
  return (
    <>
      <button type="button" popovertarget="export">
        {texts.exportThread}
      </button>
      <div id="export" popover="auto" class="menu">
        <button type="button" onClick={() => saveConversation(exchanges, "md")}>
          {texts.asMarkdown}
        </button>
        <button type="button" onClick={() => saveConversation(exchanges, "json")}>
          {texts.asJson}
        </button>
        {saveSigned && (
          <button type="button" onClick={saveSigned}>
            {texts.asEvidence}
          </button>
        )}
      </div>
    </>
  );
}

/** Pixels of the answer's end below the composer that count as in view. */
const IN_VIEW = 40;

// A new question goes to the top; the text that is written then is followed, unless the reader has scrolled up.
function useFollowing(list: { current: HTMLDivElement | null }, exchanges: readonly Exchange[]): void {
  const newest = exchanges.at(-1);
  const isFollowed = useRef(true);
  const place = useRef(0);
  useEffect(() => {
    const look = () => {
      isFollowed.current = beyondView(list.current) < IN_VIEW;
      place.current = scrollY;
    };
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    if (newest?.state === "running") list.current?.lastElementChild?.scrollIntoView({ block: "start" });
    isFollowed.current = true;
    place.current = scrollY;
  }, [newest?.id]);
  useLayoutEffect(() => {
    // The event of a scroll comes later than more text may.
    if (scrollY < place.current - 1) isFollowed.current = false;
    const beyond = beyondView(list.current);
    if (newest?.state !== "running" || !isFollowed.current || beyond <= 0) return;
    scrollBy(0, beyond);
    place.current = scrollY;
  }, [newest?.text]);
}

// By how many pixels the newest answer's end lies below what the composer leaves to see.
function beyondView(list: HTMLDivElement | null): number {
  const answer = list?.lastElementChild?.querySelector(".answer")?.getBoundingClientRect();
  const composer = document.querySelector("footer")?.getBoundingClientRect();
  return answer && composer ? answer.bottom + 16 - composer.top : 0;
}
