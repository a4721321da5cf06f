import type { Citation, GroundlineClient, Source } from "groundline-client";
import type { ComponentChildren } from "preact";
import { passageAddress } from "../lib/address";
import { compact, isWebAddress } from "../lib/format";
import { OpenOriginal } from "../documents/original";
import { texts } from "../texts";
import { citedNumbers, type Exchange } from "./exchange";
import { Link } from "./markdown";

/** The page that the cited sentence is on, or else the one that the passage begins on; 0 where there are no pages. */
export function pageOf(source: Source, citations: readonly Citation[]): number {
  const cited = citations.find(({ sourceNumber, page }) => sourceNumber === source.number && page)?.page;
  return Number(cited ?? source.metadata?.page) || 0;
}

/** The sentences of a source that the answer rests on. */
export function quotesOf(source: Source, citations: readonly Citation[]): string[] {
  const quotes = citations.filter(({ sourceNumber }) => sourceNumber === source.number).map(({ supportingText }) => supportingText);
  return [...new Set(quotes)].filter(Boolean);
}

/** A snippet with the sentences marked that the answer rests on; one beyond its end follows it. */
function Snippet({ text, quotes }: { text: string; quotes: readonly string[] }) {
  let parts: ComponentChildren[] = [text];
  for (const quote of quotes) {
    const at = parts.findIndex((part) => typeof part === "string" && part.includes(quote));
    const plain = parts[at];
    if (typeof plain !== "string") {
      parts = [...parts, text ? "\n" : "", <mark>{quote}</mark>];
      continue;
    }
    const start = plain.indexOf(quote);
    parts.splice(at, 1, plain.slice(0, start), <mark>{quote}</mark>, plain.slice(start + quote.length));
  }
  return (
    <p class="snippet" dir="auto">
      {parts.map((part) => (typeof part === "string" ? compact(part) : part))}
    </p>
  );
}

interface SourcesProps {
  exchange: Exchange;
  client: GroundlineClient;
  open: (source: Source) => void;
}

/** Passages that the answer cites as its sources, the others folded away. */
export function Sources({ exchange, client, open }: SourcesProps) {
  const numbers = citedNumbers(exchange);
  const [cited, others] = [true, false].map((isCited) => exchange.sources.filter(({ number }) => numbers.has(number) === isCited));
  const list = (sources: Source[], words: string) => (
    <ol class="sources" aria-label={words}>
      {sources.map((source) => (
        <SourceItem key={source.number} source={source} citations={exchange.citations} client={client} open={() => open(source)} />
      ))}
    </ol>
  );
  return (
    <>
      {cited?.length ? list(cited, texts.sources) : null}
      {others?.length ? (
        <details class="others">
          <summary>{cited?.length ? texts.foundMore(others.length) : texts.found(others.length)}</summary>
          {list(others, texts.uncited)}
        </details>
      ) : null}
    </>
  );
}

interface SourceItemProps {
  source: Source;
  citations: readonly Citation[];
  client: GroundlineClient;
  open: () => void;
}

function SourceItem({ source, citations, client, open }: SourceItemProps) {
  const page = pageOf(source, citations);
  const { number, title, uri, documentId } = source;
  return (
    <li>
      <span class="number">{number}</span>
      <div>
        {documentId ? (
          <button type="button" class="title" dir="auto" onClick={open}>
            {title || uri || texts.source(number)}
          </button>
        ) : (
          <div class="title" dir="auto">
            {title || uri || texts.source(number)}
          </div>
        )}
        {uri && <Place source={source} />}
        {source.isOutdated && <div class="hint">{texts.outdated}</div>}
        {source.hasOriginal ? (
          <OpenOriginal client={client} page={page} {...source} />
        ) : (
          page > 0 && <div class="original">{texts.page(page)}</div>
        )}
        <Snippet text={source.snippet ?? ""} quotes={quotesOf(source, citations)} />
      </div>
    </li>
  );
}

// A document of the web opens there, another one's text opens here.
function Place({ source }: { source: Source }) {
  const { uri, documentId, collectionId, startOffset = 0, endOffset = 0, revision } = source;
  if (isWebAddress(uri)) {
    return (
      <Link href={uri} class="uri">
        {uri}
      </Link>
    );
  }
  if (!documentId) return <div class="uri">{uri}</div>;
  return (
    <a class="uri" href={passageAddress({ collectionId, documentId, startOffset, endOffset, revision })}>
      {uri}
    </a>
  );
}
