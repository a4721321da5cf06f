import type { Collection, Facet, GroundlineClient } from "groundline-client";
import { useState } from "preact/hooks";
import { EVERYTHING, type Selection } from "../lib/address";
import { allCollections, someCollectionIds } from "../documents/collections";
import { count, dayText } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { STRATEGIES } from "../search/settings";
import { Dialog } from "./dialog";
import { Failure } from "./failure";
import { texts } from "../texts";

/** Collections, and documents of each, that are looked at for the fields to filter by. */
const SAMPLED_COLLECTIONS = 5;
const SAMPLE = 100;
/** As many as a search counts. */
const MOST_FIELDS = 10;
const MOST_VALUES = 20;

interface SelectionButtonProps {
  client: GroundlineClient;
  selection: Selection;
  setSelection: (selection: Selection) => void;
  /** Whether what is chosen is answered, so that how can be chosen too. */
  isAnswered?: boolean;
}

/** Says what a question is asked of, and lets the reader choose it. */
export function SelectionButton({ client, selection, setSelection, isAnswered = false }: SelectionButtonProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" id="selection" class="quiet" onClick={() => setOpen(true)}>
        {selectionText(selection)}
      </button>
      {isOpen && (
        <SelectionDialog
          client={client}
          selection={selection}
          isAnswered={isAnswered}
          close={() => setOpen(false)}
          apply={(next) => {
            setSelection(next);
            setOpen(false);
          }}
        />
      )}
    </>
  );
}

function selectionText({ collectionIds, filter, day, model, strategy }: Selection): string {
  const [first] = collectionIds;
  const collections =
    first === undefined ? texts.allCollections : collectionIds.length === 1 ? first : texts.collectionsChosen(collectionIds.length);
  const filters = Object.keys(filter).length;
  return [collections, filters && texts.filtersChosen(filters), day && texts.asOfDay(dayText(day)), model, strategy && texts.settingValues[strategy]].filter(Boolean).join(" · ");
}

interface SelectionDialogProps {
  client: GroundlineClient;
  selection: Selection;
  isAnswered: boolean;
  apply: (selection: Selection) => void;
  close: () => void;
}

/** Chooses the collections and the metadata that a question is asked of, and how it is answered. */
function SelectionDialog({ client, selection, isAnswered, apply, close }: SelectionDialogProps) {
  const [chosen, setChosen] = useState(selection);
  const collections = useLoaded((signal) => allCollections(client, signal), [client]);
  const facets = useLoaded((signal) => facetsOf(client, chosen.collectionIds, signal), [client, chosen.collectionIds.join()]);
  const toggle = (id: string) =>
    setChosen({
      ...chosen,
      filter: {},
      collectionIds: chosen.collectionIds.includes(id)
        ? chosen.collectionIds.filter((each) => each !== id)
        : [...chosen.collectionIds, id],
    });
  const toggleValue = (field: string, value: unknown) => {
    const { [field]: before = [], ...others } = chosen.filter;
    const after = before.includes(value) ? before.filter((each) => each !== value) : [...before, value];
    setChosen({ ...chosen, filter: after.length ? { ...others, [field]: after } : others });
  };
  return (
    <Dialog title={texts.selection} close={close} id="selection-dialog">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          apply(chosen);
        }}
      >
        <fieldset>
          <legend>{texts.collections}</legend>
          {collections.problem && <Failure problem={collections.problem} retry={collections.reload} />}
          {collections.value?.map(({ collectionId, name, documentCount }) => (
            <Choice
              isChosen={chosen.collectionIds.includes(collectionId)}
              words={name || collectionId}
              number={Number(documentCount ?? 0)}
              toggle={() => toggle(collectionId)}
            />
          ))}
          {collections.value?.length === 0 && <p class="hint">{texts.noCollections}</p>}
        </fieldset>
        {facets.problem && <Failure problem={facets.problem} retry={facets.reload} />}
        {facets.value?.map(({ field, values = [] }) => (
          <fieldset key={field}>
            <legend>{field}</legend>
            {values.map(({ value, documentCount }) => (
              <Choice
                isChosen={chosen.filter[field]?.includes(value) ?? false}
                words={String(value)}
                number={Number(documentCount)}
                toggle={() => toggleValue(field, value)}
              />
            ))}
          </fieldset>
        ))}
        {facets.value?.length === 0 && <p class="hint">{texts.noFilters}</p>}
        {(chosen.day || hasPast(collections.value ?? [], chosen.collectionIds)) && (
          <fieldset>
            <legend>{texts.asOf}</legend>
            <label class="setting">
              {texts.endOfDay}
              <input
                id="day"
                type="date"
                max={yesterday()}
                value={chosen.day}
                onInput={(event) => setChosen({ ...chosen, day: event.currentTarget.value })}
              />
            </label>
            <p class="hint">{texts.asOfHint}</p>
          </fieldset>
        )}
        {isAnswered && <Answering client={client} collections={collections.problem ? [] : collections.value} chosen={chosen} choose={setChosen} />}
        <p class="hint">{texts.selectionHint}</p>
        <div class="row">
          <button class="primary">{texts.apply}</button>
          <button type="button" onClick={() => setChosen({ ...EVERYTHING, effort: chosen.effort })}>
            {texts.clear}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Whether there are collections among those that are asked whose past can be searched. */
function hasPast(collections: readonly Collection[], ids: readonly string[]): boolean {
  return collections.some(({ collectionId, settings }) => (!ids.length || ids.includes(collectionId)) && settings?.history?.searchable);
}

/** The last day that has ended, where the reader is. */
function yesterday(): string {
  const day = new Date();
  day.setDate(day.getDate() - 1);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

interface AnsweringProps {
  client: GroundlineClient;
  /** Undefined until they are known: no model is offered before. */
  collections: readonly Collection[] | undefined;
  chosen: Selection;
  choose: (selection: Selection) => void;
}

/** The model that answers, if the generator offers several that the collections allow, and how passages are reranked before. */
function Answering({ client, collections, chosen, choose }: AnsweringProps) {
  const { value = [], problem, reload } = useLoaded(async (signal) => (await client.listModels({}, { signal })).models ?? [], [client]);
  const allowed = collections ? allowedOf(value, collections, chosen.collectionIds) : [];
  const { model, strategy } = chosen;
  // One of an address that is not offered or not allowed is shown, and refused with the reason.
  const shown = !model || allowed.includes(model) ? allowed : [model, ...allowed];
  return (
    <fieldset>
      <legend>{texts.answering}</legend>
      {problem && <Failure problem={problem} retry={reload} />}
      <div class="settings">
        {(model || shown.length > 1) && (
          <label class="setting">
            {texts.model}
            <select id="model" value={model} onChange={(event) => choose({ ...chosen, model: event.currentTarget.value })}>
              <option value="">{texts.asSet}</option>
              {shown.map((each) => (
                <option value={each}>{each}</option>
              ))}
            </select>
          </label>
        )}
        <label class="setting">
          {texts.settingNames.strategy}
          <select
            id="reranking"
            value={strategy}
            onChange={(event) => choose({ ...chosen, strategy: event.currentTarget.value as Selection["strategy"] })}
          >
            <option value="">{texts.asSet}</option>
            {STRATEGIES.map((each) => (
              <option value={each}>{texts.settingValues[each] ?? each}</option>
            ))}
          </select>
        </label>
      </div>
      <p class="hint">{texts.answeringHint}</p>
    </fieldset>
  );
}

/** Those of the models that a question to these collections may ask for. */
function allowedOf(models: readonly string[], collections: readonly Collection[], ids: readonly string[]): readonly string[] {
  const asked = collections.filter(({ collectionId }) => !ids.length || ids.includes(collectionId));
  const limits = asked.map(({ settings }) => settings?.generationLimits?.models ?? []).filter((names) => names.length);
  return models.filter((model) => limits.every((names) => names.includes(model)));
}

interface ChoiceProps {
  isChosen: boolean;
  words: string;
  number: number;
  toggle: () => void;
}

function Choice({ isChosen, words, number, toggle }: ChoiceProps) {
  return (
    <label class="choice">
      <input type="checkbox" checked={isChosen} onChange={toggle} />
      <span dir="auto">{words}</span>
      <span class="hint">{count(number)}</span>
    </label>
  );
}

// Fields are those of the first documents of some collections, counts those of all documents.
async function facetsOf(client: GroundlineClient, chosen: readonly string[], signal: AbortSignal): Promise<Facet[]> {
  const ids = await someCollectionIds(client, chosen, SAMPLED_COLLECTIONS, signal);
  const pages = await Promise.all(ids.map((collectionId) => client.listDocuments({ collectionId, pageSize: SAMPLE }, { signal })));
  const fields = new Set(
    pages.flatMap(({ documents = [] }) =>
      documents.flatMap(({ metadata = {} }) => Object.entries(metadata).filter(([, value]) => isPlain(value)).map(([field]) => field)),
    ),
  );
  if (!fields.size) return [];
  const { facets = [] } = await client.search(
    {
      query: "*",
      collectionIds: [...chosen],
      facets: [...fields].slice(0, MOST_FIELDS),
      maxFacetValues: MOST_VALUES,
      options: { rerank: { topK: 1 } },
    },
    { signal },
  );
  return facets.filter(({ values = [] }) => values.length);
}

function isPlain(value: unknown): boolean {
  const one: unknown = Array.isArray(value) ? value[0] : value;
  return ["string", "number", "boolean"].includes(typeof one) && String(one).length <= 100;
}
