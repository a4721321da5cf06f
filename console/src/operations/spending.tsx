import type { GroundlineClient, UsageSum } from "groundline-client";
import { useId, useState } from "preact/hooks";
import { Quotas } from "../documents/usage";
import { count, dayText, number } from "../lib/format";
import { useLoaded } from "../lib/use_loaded";
import { operations } from "../texts/operations";
import { LookAgain, Section } from "./section";

const DAYS = [1, 7, 30, 62] as const;
/** Few, since a long time of a large installation takes seconds to sum up. */
const DAYS_FIRST = 7;

/** What everybody, or one caller, used and spent, for who administers the installation. */
export function SpendingSection({ client }: { client: GroundlineClient }) {
  const id = useId();
  const [asked, setAsked] = useState({ days: DAYS_FIRST, caller: "" });
  const loaded = useLoaded((signal) => client.getUsage(asked, { signal }), [client, asked]);
  const { value, reload } = loaded;
  return (
    <Section
      id="spending"
      title={operations.spending}
      hint={operations.spendingHint}
      tools={<LookAgain reload={reload} about={operations.spending} />}
      loaded={loaded}
    >
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          setAsked({ days: Number(form.get("days")), caller: String(form.get("caller")).trim() });
        }}
      >
        <label for={`${id}caller`}>{operations.caller}</label>
        <input id={`${id}caller`} name="caller" maxLength={200} autocomplete="off" placeholder={operations.everybody} />
        <label for={`${id}days`}>{operations.period}</label>
        <select id={`${id}days`} name="days">
          {DAYS.map((days) => (
            <option key={days} value={days} selected={days === asked.days}>
              {operations.lastDays(days)}
            </option>
          ))}
        </select>
        <button>{operations.show}</button>
      </form>
      {value && (
        <>
          <Quotas quotas={value.quotas} />
          <Sums of={operations.byModel} sums={value.models} />
          <Sums of={operations.byCaller} sums={value.callers} total={value.total} />
          <Sums of={operations.byDay} sums={value.days} shown={dayText} />
        </>
      )}
    </Section>
  );
}

interface SumsProps {
  of: string;
  sums: readonly UsageSum[];
  total?: UsageSum | undefined;
  /** The name in words. */
  shown?: (name: string) => string;
}

function Sums({ of, sums, total, shown = (name) => name || operations.noName }: SumsProps) {
  if (!sums.length) return null;
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{of}</th>
            <th scope="col">{operations.dollars}</th>
            <th scope="col">{operations.answers}</th>
            <th scope="col">{operations.tokensRead}</th>
            <th scope="col">{operations.tokensCached}</th>
            <th scope="col">{operations.tokensWritten}</th>
          </tr>
        </thead>
        <tbody>
          {total && (
            <tr>
              <th scope="row">{operations.total}</th>
              <Numbers sum={total} />
            </tr>
          )}
          {sums.map((sum) => (
            <tr key={sum.name}>
              <td dir="auto">{shown(sum.name)}</td>
              <Numbers sum={sum} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Numbers({ sum }: { sum: UsageSum }) {
  return (
    <>
      <td>{number(sum.costUsd, 4)}</td>
      <td>{count(sum.answers)}</td>
      <td>{count(sum.promptTokens)}</td>
      <td>{count(sum.cachedTokens)}</td>
      <td>{count(sum.outputTokens)}</td>
    </>
  );
}
