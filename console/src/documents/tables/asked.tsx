import type { CellReference, Document, GroundlineClient, Input, QueryTablesResponse, TableAnswerRow, TablePlan } from "groundline-client";
import { useState } from "preact/hooks";
import type { PassagePlace } from "../../lib/address";
import { count } from "../../lib/format";
import { problemOf, type Problem } from "../../lib/problem";
import { useLoaded } from "../../lib/use_loaded";
import { Failure } from "../../parts/failure";
import { Folded } from "../../parts/folded";
import { texts } from "../../texts";
import { PassagePanel } from "../passage";
import { chosen, columnWords } from "./columns";
import { PlanForm } from "./plan_form";

/** Rows that are added by the button, as many times, and that an answer has at most. */
const MORE = 5;
const MOST_ROWS = 1000;
/** Cells of a row that are named before its others are only counted, and characters of a row that are marked. */
const NAMED_CELLS = 3;
const MOST_MARKED = 2000;

interface AskedTableProps {
  client: GroundlineClient;
  document: Document;
  /** What is asked first; the reader may change its plan. */
  first: { question?: string; plan?: Input<TablePlan> };
}

/** What a question or a plan gets of a document's tables, with the plan, which can be changed. */
export function AskedTable({ client, document: { collectionId, documentId }, first }: AskedTableProps) {
  const [request, setRequest] = useState(first);
  const [opened, setOpened] = useState<PassagePlace>();
  const [lost, setLost] = useState<Problem>();
  const { value, problem, isLoading, reload } = useLoaded(
    (signal) => client.queryTables({ ...request, collectionIds: [collectionId], documentId }, { signal }),
    [client, request],
  );
  const { plan, table, explanation, hasMore = false } = value ?? {};
  const limit = plan?.limit ?? 100;
  const open = async (row: TableAnswerRow, { startOffset = 0 }: CellReference) => {
    setLost(undefined);
    try {
      const revision = table?.revision ?? "";
      const { text = "" } = await client.getDocumentText({ collectionId, documentId, startOffset, maxCharacters: MOST_MARKED, revision });
      const length = [...textOf(row, text)].length;
      setOpened({ collectionId, documentId, startOffset, endOffset: startOffset + length, revision });
    } catch (error) {
      setLost(problemOf(error));
    }
  };
  return (
    <div class="asked-table">
      {isLoading && <p class="status busy">{texts.working}</p>}
      {problem && <Failure problem={problem} retry={reload} />}
      {lost && <Failure problem={lost} />}
      {value && chosen(value.refusal) && <Refused {...value} />}
      {plan && table && value && (
        <>
          <p class="searched" role="status" dir="auto">
            {explanation}
          </p>
          <Rows response={value} open={(row, source) => void open(row, source)} />
          {hasMore && limit < MOST_ROWS && (
            <button type="button" onClick={() => setRequest({ plan: { ...plan, limit: Math.min(MOST_ROWS, limit * MORE) } })}>
              {texts.more}
            </button>
          )}
          <Folded words={texts.plan} class="group">
            <PlanForm key={JSON.stringify(plan)} table={table} plan={plan} run={(next) => setRequest({ plan: next })} />
          </Folded>
        </>
      )}
      {opened && <PassagePanel client={client} place={opened} close={() => setOpened(undefined)} />}
    </div>
  );
}

function Refused({ refusal, unknownWords = [] }: QueryTablesResponse) {
  return (
    <p class="note warn" role="status">
      {texts.tableRefusals[refusal] ?? refusal}
      {unknownWords.length > 0 && ` ${texts.unknownWords(unknownWords.join(", "))}`}
    </p>
  );
}

// A row is a line, or as many as it has cells; where it ends is not told.
function textOf({ cells = [] }: TableAnswerRow, text: string): string {
  const [row = ""] = text.split("\n\n", 1);
  const [line = ""] = row.split("\n", 1);
  let end = 0;
  for (const { text: shown = "" } of cells) {
    const at = row.indexOf(shown, end);
    if (at >= 0) end = at + shown.length;
  }
  return row.slice(0, Math.max(end, line.length));
}

type Open = (row: TableAnswerRow, source: CellReference) => void;

function Rows({ response, open }: { response: QueryTablesResponse; open: Open }) {
  const { plan, table, columns = [], rows = [] } = response;
  if (!rows.length) return <p>{texts.noRows}</p>;
  const isComputed = chosen(plan?.function) !== undefined;
  const shown = plan?.columns?.length ? plan.columns : (table?.columns ?? []).map((_, at) => at);
  return (
    <div class="table" role="region" aria-label={response.explanation} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <th scope="col" dir="auto">
                {columnWords(column)}
                {!isComputed && <span class="hint">{texts.columnTypes[table?.columns?.[shown[at] ?? 0]?.type ?? ""]}</span>}
              </th>
            ))}
            <th scope="col">{texts.cells}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {(row.cells ?? []).map(({ text }) => (
                <td dir="auto">{text}</td>
              ))}
              <td>
                <Cited row={row} isComputed={isComputed} open={open} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cited({ row, isComputed, open }: { row: TableAnswerRow; isComputed: boolean; open: Open }) {
  const { sources = [], rowCount = 0, missingCount = 0 } = row;
  const [first] = sources;
  const last = sources.at(-1);
  if (!first || !last) return null;
  const named = sources.length > NAMED_CELLS ? [first, last].map(placeOf).join(" … ") : [...new Set(sources.map(placeOf))].join(", ");
  return (
    <>
      <button type="button" class="quiet" onClick={() => open(row, first)}>
        {named}
      </button>
      {isComputed && <span class="hint"> {texts.ofRows(count(rowCount))}</span>}
      {missingCount > 0 && <span class="hint"> {texts.withoutNumber(count(missingCount))}</span>}
    </>
  );
}

function placeOf({ reference, row }: CellReference): string {
  return reference || texts.row(row);
}
