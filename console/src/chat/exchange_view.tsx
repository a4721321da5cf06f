import type { Feedback, GroundlineClient, Input, Source } from "groundline-client";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { searchAddress, type Selection } from "../lib/address";
import { configuration } from "../lib/configuration";
import { memo } from "../lib/memo";
import { announce } from "../parts/announcer";
import { CopyButton } from "../parts/copy_button";
import { texts } from "../texts";
import { Chip } from "./chip";
import { markedText, type Exchange } from "./exchange";
import { answerAsMarkdown } from "./export";
import { Rate } from "./feedback";
import { Markdown } from "./markdown";
import { quotesOf, Sources } from "./sources";
import { Verdict } from "./verdict";

interface ExchangeProps {
  exchange: Exchange;
  client: GroundlineClient;
  isBusy: boolean;
  /** What a question that is asked again is asked of. */
  selection: Selection;
  open: (source: Source, exchange: Exchange) => void;
  retry: () => void;
  askInstead: (query: string, selection: Selection) => void;
  rate: (feedback: Input<Feedback>) => Promise<Feedback | undefined>;
}

/** A question, its answer as it is written, and what the answer rests on. */
export const ExchangeView = memo(Exchanged, (before, after) =>
  (["exchange", "client", "isBusy", "selection"] as const).every((name) => before[name] === after[name]),
);

function Exchanged({ exchange, client, isBusy, selection, open, retry, askInstead, rate }: ExchangeProps) {
  const isRunning = exchange.state === "running";
  const openSource = (source: Source) => open(source, exchange);
  useAnnouncements(exchange);
  // The same function while the sources are the same: only then written blocks stay as they are.
  const latest = useRef(openSource);
  latest.current = openSource;
  const citation = useCallback(
    (number: number) => {
      const source = exchange.sources.find((each) => each.number === number);
      if (!source) return null;
      const quote = quotesOf(source, exchange.citations)[0] ?? source.snippet ?? "";
      return <Chip source={source} quote={quote} open={() => latest.current(source)} />;
    },
    [exchange.sources, exchange.citations],
  );
  return (
    <article aria-busy={isRunning}>
      <Question exchange={exchange} isBusy={isBusy} askInstead={(query) => askInstead(query, selection)} />
      <Searched exchange={exchange} />
      <div class="answer">
        <Markdown text={markedText(exchange)} citation={citation} />
      </div>
      <Verdict exchange={exchange} retry={retry} />
      {exchange.sources.length > 0 && !isRunning && <Sources exchange={exchange} client={client} open={openSource} />}
      {!isRunning && exchange.text && (
        <div class="actions">
          <CopyButton text={() => answerAsMarkdown(exchange)} words={texts.copyAnswer} />
          <a class="ranked button" href={searchAddress({ query: exchange.query, selection: exchange.selection, settings: [], expected: undefined })}>
            {texts.searchThis}
          </a>
          {configuration.traceUrl && exchange.traceId && (
            <a class="trace button" href={configuration.traceUrl.replaceAll("{trace_id}", exchange.traceId)} target="_blank" rel="noreferrer">
              {texts.trace}
            </a>
          )}
          {exchange.stored?.threadId && exchange.stored.messageId && <Rate given={exchange.feedback} rate={rate} />}
        </div>
      )}
    </article>
  );
}

interface QuestionProps {
  exchange: Exchange;
  isBusy: boolean;
  askInstead: (query: string) => void;
}

function Question({ exchange, isBusy, askInstead }: QuestionProps) {
  const [isEdited, setEdited] = useState(false);
  const [box, button] = [useRef<HTMLTextAreaElement>(null), useRef<HTMLButtonElement>(null)];
  const wasEdited = useRef(false);
  useEffect(() => {
    if (isEdited) {
      box.current?.focus();
      box.current?.setSelectionRange(exchange.query.length, exchange.query.length);
    } else if (wasEdited.current) button.current?.focus();
    wasEdited.current = isEdited;
  }, [isEdited]);
  if (!isEdited) {
    return (
      <div class="question-row">
        <h2 class="question" dir="auto">
          {exchange.query}
        </h2>
        {!isBusy && (
          <button ref={button} type="button" class="edit quiet" aria-label={texts.edit} title={texts.edit} onClick={() => setEdited(true)}>
            ✎
          </button>
        )}
      </div>
    );
  }
  return (
    <form
      class="edited card"
      onSubmit={(event) => {
        event.preventDefault();
        const query = String(new FormData(event.currentTarget).get("query")).trim();
        if (query) askInstead(query);
      }}
    >
      <label>
        {texts.edit}
        <textarea
          name="query"
          ref={box}
          rows={3}
          maxLength={8000}
          dir="auto"
          defaultValue={exchange.query}
          onKeyDown={(event) => {
            if (event.key === "Escape") setEdited(false);
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }}
        />
      </label>
      <p class="hint">{texts.editHint}</p>
      <button class="primary">{texts.ask}</button>
      <button type="button" onClick={() => setEdited(false)}>
        {texts.cancel}
      </button>
    </form>
  );
}

function Searched({ exchange: { queries, corrections, missing, state } }: { exchange: Exchange }) {
  return (
    <>
      {queries.length > 0 && (
        <p class="searched" dir="auto">
          {texts.searchedFor}: {queries.map((query) => `“${query}”`).join(" · ")}
        </p>
      )}
      {corrections.length > 0 && (
        <p class="searched" dir="auto">
          {corrections.map(({ given, used }) => texts.corrected(given, used)).join(" · ")}
        </p>
      )}
      {missing && state === "running" && (
        <p class="searched" dir="auto">
          {texts.missing(missing)}
        </p>
      )}
    </>
  );
}

/** What is being done for a question that is not answered yet. */
export function stageText({ stage, waiting }: Exchange): string {
  if (waiting) return texts.waiting(Math.ceil(waiting.durationSeconds || 0));
  if (!stage) return texts.asking;
  return texts.stages[stage] ?? texts.working;
}

// Streamed text is in no live region: this says where it stands, and that it is there.
function useAnnouncements(exchange: Exchange): void {
  const { state, citations } = exchange;
  const said = state === "running" ? stageText(exchange) : "";
  useEffect(() => {
    if (said) announce(said);
  }, [said]);
  useEffect(() => {
    if (state === "ended" && exchange.completed) announce(texts.answerReady(citations.length));
    if (state === "stopped") announce(texts.stopped);
  }, [state]);
}
