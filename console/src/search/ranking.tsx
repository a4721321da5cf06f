import type { CutPassage, Passage, ScoreExplanation, SearchResponse, TextSpan } from "groundline-client";
import type { ComponentChildren } from "preact";
import { compact, number as numberText } from "../lib/format";
import { texts } from "../texts";

interface RankingProps {
  response: SearchResponse;
  /** What other settings found. */
  other: SearchResponse | undefined;
  open: (passage: Passage) => void;
}

/** The passages of a search in their order, each with its scores; what was cut, and how long it took. */
export function Ranking({ response, other, open }: RankingProps) {
  const { passages = [], cut = [], degraded = [], corrections = [], timings = [] } = response;
  const tops = topsOf(passages);
  return (
    <>
      {corrections.map(({ given, used }) => (
        <p class="searched">{texts.corrected(given, used)}</p>
      ))}
      {degraded.map(({ component, message, reason }) => (
        <p class="note warn">{texts.searchedWithout(texts.components[component] ?? component, message || reason)}</p>
      ))}
      {!passages.length && <p>{texts.nothingFound}</p>}
      <ol class="sources ranking">
        {passages.map((passage, at) => (
          <li key={passage.chunk?.chunkId}>
            <span class="number">{at + 1}</span>
            <div>
              <button type="button" class="title" dir="auto" onClick={() => open(passage)}>
                {passage.chunk?.title || passage.chunk?.uri}
              </button>
              <div class="uri" dir="auto">
                {passage.chunk?.uri}
                {other && <span class="elsewhere"> · {elsewhere(passage, at, other)}</span>}
              </div>
              <Highlighted passage={passage} />
              <Scores explanation={passage.explanation} tops={tops} />
              {passage.alternatives?.length ? <p class="hint">{texts.standsFor(passage.alternatives.length)}</p> : null}
            </div>
          </li>
        ))}
      </ol>
      {cut.length > 0 && <p class="hint cut">{cutText(cut)}</p>}
      {timings.length > 0 && (
        <p class="hint">
          {timings.map(({ stage, durationMs }) => `${texts.stageNames[stage] ?? stage} ${texts.milliseconds(numberText(durationMs, 1))}`).join(" · ")}
        </p>
      )}
    </>
  );
}

function elsewhere({ chunk }: Passage, at: number, { passages = [] }: SearchResponse): string {
  const place = passages.findIndex((each) => each.chunk?.chunkId === chunk?.chunkId);
  if (place < 0) return texts.notThere;
  return place === at ? texts.samePlace : texts.placeThere(place + 1);
}

function cutText(cut: readonly CutPassage[]): string {
  const rules = new Map<string, number>();
  for (const { rule } of cut) rules.set(rule, (rules.get(rule) ?? 0) + 1);
  return `${texts.cut}: ${[...rules].map(([rule, times]) => `${times} ${texts.cutRules[rule] ?? rule}`).join(" · ")}`;
}

/** The largest value of each score in a list, by its name: what its bars are measured by. */
type Tops = ReadonlyMap<string, number>;

interface Score {
  name: string;
  words: string;
  value: number;
  /** The value, with its place in its list or its weight. */
  said: string;
}

function scoresOf({ keyword, semantic, fusedScore, fusedRank, components = [], finalScore }: ScoreExplanation): Score[] {
  const arm = (name: "keyword" | "semantic", found: ScoreExplanation["keyword"]): Score[] =>
    found ? [{ name, words: texts.scores[name], value: found.score, said: `${numberText(found.score, 3)} · ${texts.place(found.rank)}` }] : [];
  return [
    ...arm("keyword", keyword),
    ...arm("semantic", semantic),
    { name: "fusion", words: texts.scores.fusion, value: fusedScore, said: `${numberText(fusedScore, 3)} · ${texts.place(fusedRank)}` },
    ...components.map(({ name, value, weight }) => ({
      name: `component ${name}`,
      words: name,
      value: value * weight,
      said: `${numberText(value, 3)} × ${numberText(weight, 2)}`,
    })),
    ...(components.length ? [{ name: "final", words: texts.scores.final, value: finalScore, said: numberText(finalScore, 3) }] : []),
  ];
}

function topsOf(passages: readonly Passage[]): Tops {
  const tops = new Map<string, number>();
  for (const { explanation } of passages) {
    for (const { name, value } of explanation ? scoresOf(explanation) : []) tops.set(name, Math.max(tops.get(name) ?? 0, value));
  }
  return tops;
}

function Scores({ explanation, tops }: { explanation: ScoreExplanation | undefined; tops: Tops }) {
  if (!explanation) return null;
  return (
    <details class="why">
      <summary>{texts.whyHere}</summary>
      <dl class="scores">
        {scoresOf(explanation).map(({ name, words, value, said }) => (
          <>
            <dt>{words}</dt>
            <dd>
              <span class="track" aria-hidden="true">
                <span class="bar-of" style={{ width: `${Math.max(0, Math.min(100, (100 * value) / (tops.get(name) || 1)))}%` }} />
              </span>
              {said}
            </dd>
          </>
        ))}
        {!explanation.keyword && <Absent words={texts.scores.keyword} />}
        {!explanation.semantic && <Absent words={texts.scores.semantic} />}
      </dl>
    </details>
  );
}

function Absent({ words }: { words: string }) {
  return (
    <>
      <dt>{words}</dt>
      <dd class="hint">{texts.notAmong}</dd>
    </>
  );
}

// Offsets are in Unicode code points.
function Highlighted({ passage: { chunk, highlights } }: { passage: Passage }) {
  const text = [...(chunk?.text ?? "")];
  const { startOffset = 0, endOffset = text.length } = highlights?.snippet ?? {};
  const cut = (span: TextSpan) => compact(text.slice(span.startOffset, span.endOffset).join(""));
  const parts: ComponentChildren[] = [startOffset > 0 ? "…" : ""];
  let at = startOffset;
  for (const word of highlights?.words ?? []) {
    if (word.startOffset < at || word.endOffset > endOffset) continue;
    parts.push(cut({ startOffset: at, endOffset: word.startOffset }), <mark>{cut(word)}</mark>);
    at = word.endOffset;
  }
  parts.push(cut({ startOffset: at, endOffset }), endOffset < text.length ? "…" : "");
  return (
    <p class="snippet" dir="auto">
      {parts}
    </p>
  );
}
