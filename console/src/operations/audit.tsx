import type { AuditEntry, GroundlineClient } from "groundline-client";
import { useId, useState } from "preact/hooks";
import { moment } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";
import { operations } from "../texts/operations";
import { LookAgain, Section } from "./section";

/** Entries that are shown at first and added by the button. */
const SHOWN = 50;
/** Pages that are asked for at most for each of them: of a client that calls rarely, a page may have few entries. */
const PAGES = 10;
const OK = 200;

/** Who changed what, and what was refused, for who administers the installation. */
export function AuditSection({ client }: { client: GroundlineClient }) {
  const id = useId();
  const [most, setMost] = useState(SHOWN);
  const [who, setWho] = useState("");
  const loaded = useLoaded(
    async (signal) => {
      const entries: AuditEntry[] = [];
      let pageToken = "";
      for (let left = (PAGES * most) / SHOWN; left > 0 && entries.length < most; left--) {
        const page = await client.listAuditEntries({ client: who, pageSize: most - entries.length, pageToken }, { signal });
        entries.push(...page.entries);
        pageToken = page.nextPageToken;
        if (!pageToken) break;
      }
      return { entries, hasMore: pageToken !== "" };
    },
    [client, most, who],
  );
  const { value, reload } = loaded;
  return (
    <Section id="audit" title={operations.audit} hint={operations.auditHint} tools={<LookAgain reload={reload} about={operations.audit} />} loaded={loaded}>
      {value && (
        <>
          <form
            class="row"
            onSubmit={(event) => {
              event.preventDefault();
              setMost(SHOWN);
              setWho(String(new FormData(event.currentTarget).get("client")).trim());
            }}
          >
            <label for={id}>{operations.client}</label>
            <input id={id} name="client" maxLength={256} autocomplete="off" />
            <button>{operations.show}</button>
          </form>
          {value.entries.length ? <Table entries={value.entries} /> : <p class="hint">{value.hasMore ? operations.noEntriesYet : operations.noEntries}</p>}
          {value.hasMore && (
            <button type="button" onClick={() => setMost(most + SHOWN)}>
              {texts.more}
            </button>
          )}
        </>
      )}
    </Section>
  );
}

function Table({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{operations.time}</th>
            <th scope="col">{operations.client}</th>
            <th scope="col">{operations.action}</th>
            <th scope="col">{operations.outcome}</th>
            <th scope="col">{operations.resource}</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.entryId}>
              <td>
                <time dateTime={entry.time}>{moment(entry.time)}</time>
              </td>
              <td dir="auto">{entry.client}</td>
              <td>
                {entry.action}
                {entry.isDryRun && ` (${operations.dryRun})`}
              </td>
              <td>{outcome(entry)}</td>
              <td>
                <code>{entry.resource}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How a call ended. What the gateway writes itself has no status, and ended well. */
function outcome({ status, grpcStatus }: AuditEntry): string {
  const isDone = grpcStatus ? grpcStatus === "OK" : status === OK || !status;
  return isDone ? operations.done : grpcStatus || String(status);
}
