import type { Document, GroundlineClient, Table } from "groundline-client";
import { useState } from "preact/hooks";
import { count } from "../../lib/format";
import { useLoaded } from "../../lib/use_loaded";
import { Failure } from "../../parts/failure";
import { Folded } from "../../parts/folded";
import { texts } from "../../texts";
import { AskedTable } from "./asked";

/** Characters of a question to tables, at most, and rows of a table that are shown at first. */
const MOST_QUESTION = 1000;
const FIRST_ROWS = 20;

/** The tables of a document, and what is asked of them. */
export function Tables({ client, document }: { client: GroundlineClient; document: Document }) {
  const { collectionId, documentId, revision } = document;
  const [asked, setAsked] = useState({ question: "", times: 0 });
  const { value, problem, reload } = useLoaded(
    (signal) => client.queryTables({ collectionIds: [collectionId], documentId }, { signal }),
    [client, documentId, revision],
  );
  const { tables = [], hasMore = false } = value ?? {};
  if (!value) return problem ? <Failure problem={problem} retry={reload} /> : <p class="status busy">{texts.loading}</p>;
  if (!tables.length) return <p class="hint">{texts.noTables}</p>;
  return (
    <>
      <Ask ask={(question) => setAsked({ question, times: asked.times + 1 })} />
      {asked.times > 0 && <AskedTable key={asked.times} client={client} document={document} first={{ question: asked.question }} />}
      <ul class="tables">
        {tables.map((table) => {
          const { tableIndex = 0 } = table;
          return (
            <li key={tableIndex}>
              <Folded words={nameOf(table)} class="group">
                <AskedTable client={client} document={document} first={{ plan: { documentId, tableIndex, limit: FIRST_ROWS } }} />
              </Folded>
            </li>
          );
        })}
      </ul>
      {hasMore && <p class="hint">{texts.moreTables}</p>}
    </>
  );
}

function nameOf({ tableIndex = 0, name = "", sheet = "", page = 0, rowCount = 0, columns = [], isCut = false }: Table): string {
  const place = [sheet && texts.sheet(sheet), page && texts.page(page)];
  const size = [texts.rowsCount(count(rowCount)), texts.columnsCount(count(columns.length)), isCut && texts.cutTable];
  return [name || texts.table(tableIndex + 1), ...place, ...size].filter(Boolean).join(" · ");
}

function Ask({ ask }: { ask: (question: string) => void }) {
  const [question, setQuestion] = useState("");
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        ask(question.trim());
      }}
    >
      <input
        required
        pattern=".*\S.*"
        maxLength={MOST_QUESTION}
        aria-label={texts.askTables}
        placeholder={texts.askTables}
        dir="auto"
        value={question}
        onInput={(event) => setQuestion(event.currentTarget.value)}
      />
      <button>{texts.ask}</button>
    </form>
  );
}
