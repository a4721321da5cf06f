import type { GroundlineClient, Passage, SearchResponse } from "groundline-client";
import { useState } from "preact/hooks";
import { askedOf, go, searchAddress, type SearchPlace } from "../lib/address";
import { problemOf, type Problem } from "../lib/problem";
import { useLoaded } from "../lib/use_loaded";
import { PassagePanel } from "../documents/passage";
import { Failure } from "../parts/failure";
import { SelectionButton } from "../parts/selection";
import { texts } from "../texts";
import { ExpectedDocument } from "./expected";
import { Ranking } from "./ranking";
import { AS_SET, FUSIONS, MODES, MOST_PASSAGES, optionsOf, STRATEGIES, type Settings } from "./settings";

interface SearchProps {
  client: GroundlineClient;
  place: SearchPlace;
}

/** Passages as a search ranks them, and why: with one setting, or two side by side. */
export function Search({ client, place }: SearchProps) {
  const [query, setQuery] = useState(place.query);
  const [opened, setOpened] = useState<Passage>();
  // Another address has another query; what is being written under the same one stays.
  const [asked, setAsked] = useState(place.query);
  if (asked !== place.query) {
    setAsked(place.query);
    setQuery(place.query);
  }
  const { settings, selection } = place;
  const change = (changes: Partial<SearchPlace>) => go(searchAddress({ ...place, query: query.trim(), ...changes }));
  const setSettings = (at: number, next: Settings) => change({ settings: settings.map((each, index) => (index === at ? next : each)) });
  return (
    <main class="wide">
      <h2>{texts.search}</h2>
      <form
        class="row"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          change({});
        }}
      >
        <input
          id="search-query"
          type="search"
          required
          maxLength={8000}
          aria-label={texts.question}
          placeholder={texts.searchPlaceholder}
          dir="auto"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <button class="primary">{texts.search}</button>
      </form>
      <div class="row">
        <SelectionButton client={client} selection={selection} setSelection={(next) => change({ selection: next })} />
        {settings.length === 1 ? (
          <button id="compare" type="button" class="quiet" onClick={() => change({ settings: [...settings, AS_SET] })}>
            {texts.compare}
          </button>
        ) : (
          <button id="compare" type="button" class="quiet" onClick={() => change({ settings: settings.slice(0, 1) })}>
            {texts.compareNoMore}
          </button>
        )}
      </div>
      <div class={settings.length > 1 ? "side-by-side" : ""}>
        {settings.map((each, at) => (
          <SettingsRow settings={each} words={texts.settings(at + 1)} isCompared={settings.length > 1} set={(next) => setSettings(at, next)} />
        ))}
      </div>
      {place.query && <Found key={searchAddress({ ...place, expected: undefined })} client={client} place={place} change={change} open={setOpened} />}
      {opened?.chunk && <PassagePanel client={client} place={opened.chunk} close={() => setOpened(undefined)} />}
    </main>
  );
}

interface FoundProps {
  client: GroundlineClient;
  place: SearchPlace;
  change: (changes: Partial<SearchPlace>) => void;
  open: (passage: Passage) => void;
}

type Outcome = { response: SearchResponse; problem?: undefined } | { response?: undefined; problem: Problem };

function Found({ client, place, change, open }: FoundProps) {
  const { settings, selection, query } = place;
  const { value, isLoading, reload } = useLoaded(
    (signal) => Promise.all(settings.map((each) => outcomeOf(client, place, each, signal))),
    [client],
  );
  const [first] = settings;
  const found = value?.[0]?.response;
  return (
    <>
      {isLoading && <p class="status busy">{texts.searching}</p>}
      <div class={settings.length > 1 ? "side-by-side" : ""}>
        {value?.map(({ response, problem }, at) => (
          <section aria-label={texts.settings(at + 1)}>
            {settings.length > 1 && <h3>{texts.settings(at + 1)}</h3>}
            {problem && <Failure problem={problem} retry={reload} />}
            {response && <Ranking response={response} other={value[1 - at]?.response} open={open} />}
          </section>
        ))}
      </div>
      {first && found && (
        <ExpectedDocument
          client={client}
          searched={{ query, selection, settings: first, response: found }}
          expected={place.expected}
          expect={(expected) => change({ expected })}
        />
      )}
    </>
  );
}

// Of two settings one may be refused.
async function outcomeOf(client: GroundlineClient, { query, selection }: SearchPlace, settings: Settings, signal: AbortSignal): Promise<Outcome> {
  try {
    const response = await client.search(
      { query, ...askedOf(selection), options: optionsOf(settings), includeHighlights: true },
      { signal },
    );
    return { response };
  } catch (error) {
    signal.throwIfAborted();
    return { problem: problemOf(error) };
  }
}

interface SettingsProps {
  settings: Settings;
  words: string;
  isCompared: boolean;
  set: (settings: Settings) => void;
}

function SettingsRow({ settings, words, isCompared, set }: SettingsProps) {
  const choice = (field: "mode" | "fusion" | "strategy", values: readonly string[]) => (
    <label class="setting">
      {texts.settingNames[field]}
      <select value={settings[field]} onChange={(event) => set({ ...settings, [field]: event.currentTarget.value })}>
        <option value="">{texts.asSet}</option>
        {values.map((value) => (
          <option value={value}>{texts.settingValues[value] ?? value}</option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="settings of-search" role="group" aria-label={words}>
      {isCompared && <strong aria-hidden>{words}</strong>}
      {choice("mode", MODES)}
      {choice("fusion", FUSIONS)}
      {choice("strategy", STRATEGIES)}
      <label class="setting">
        {texts.settingNames.topK}
        <input
          type="number"
          min={1}
          max={MOST_PASSAGES}
          placeholder={texts.asSet}
          value={settings.topK || ""}
          onChange={(event) => event.currentTarget.checkValidity() && set({ ...settings, topK: event.currentTarget.valueAsNumber || 0 })}
        />
      </label>
    </div>
  );
}
