import type { Input, Table, TableColumn, TableCondition, TableFunction, TableOperator, TablePlan } from "groundline-client";
import { useState } from "preact/hooks";
import { texts } from "../../texts";
import { chosen, nameOfColumn } from "./columns";

const OF_TEXTS = ["TABLE_OPERATOR_EQUAL", "TABLE_OPERATOR_NOT_EQUAL", "TABLE_OPERATOR_CONTAINS"] as const;
const OF_ORDER = ["TABLE_OPERATOR_EQUAL", "TABLE_OPERATOR_NOT_EQUAL", "TABLE_OPERATOR_LESS", "TABLE_OPERATOR_AT_MOST", "TABLE_OPERATOR_GREATER", "TABLE_OPERATOR_AT_LEAST"] as const;
const OF_NUMBERS = ["TABLE_FUNCTION_SUM", "TABLE_FUNCTION_AVERAGE"];
const FUNCTIONS = ["TABLE_FUNCTION_COUNT", ...OF_NUMBERS, "TABLE_FUNCTION_MINIMUM", "TABLE_FUNCTION_MAXIMUM"];
const MOST_CONDITIONS = 10;

interface PlanFormProps {
  table: Table;
  plan: TablePlan;
  run: (plan: Input<TablePlan>) => void;
}

/** A plan of the closed grammar: which rows, what of them, and in which order. */
export function PlanForm({ table, plan, run }: PlanFormProps) {
  const [draft, setDraft] = useState<Input<TablePlan>>(plan);
  const computes = chosen(draft.function as TableFunction | undefined);
  const columns = table.columns ?? [];
  const conditions = (draft.conditions ?? []) as TableCondition[];
  const setConditions = (next: TableCondition[]) => setDraft({ ...draft, conditions: next });
  const computed = columns.filter(({ type }) => type === "COLUMN_TYPE_NUMBER" || (type === "COLUMN_TYPE_DATE" && !OF_NUMBERS.includes(computes ?? "")));
  const isOfColumn = computes !== undefined && computes !== "TABLE_FUNCTION_COUNT";
  const setFunction = (value: string) => {
    const { function: _, functionColumn: __, columns: ___, groupBy, orderBy, ...others } = draft;
    const [first] = columns.filter(({ type }) => type === "COLUMN_TYPE_NUMBER");
    if (!value) return setDraft({ ...others, orderBy });
    const ofColumn = value === "TABLE_FUNCTION_COUNT" ? {} : { functionColumn: draft.functionColumn ?? first?.index ?? 0 };
    setDraft({ ...others, function: value as TableFunction, groupBy, ...(groupBy !== undefined && { orderBy }), ...ofColumn });
  };
  return (
    <form
      class="plan-form"
      onSubmit={(event) => {
        event.preventDefault();
        run(draft);
      }}
    >
      {conditions.map((condition, at) => (
        <Condition
          key={at}
          columns={columns}
          condition={condition}
          set={(next) => setConditions(conditions.map((each, index) => (index === at ? next : each)))}
          remove={() => setConditions(conditions.filter((_, index) => index !== at))}
        />
      ))}
      {conditions.length < MOST_CONDITIONS && (
        <button
          type="button"
          class="quiet add"
          onClick={() => setConditions([...conditions, { column: 0, operator: "TABLE_OPERATOR_EQUAL", values: [""] }])}
        >
          {texts.addCondition}
        </button>
      )}
      <div class="settings">
        <label class="setting">
          {texts.compute}
          <select value={computes ?? ""} onChange={(event) => setFunction(event.currentTarget.value)}>
            <option value="">{texts.theRows}</option>
            {FUNCTIONS.map((value) => (
              <option value={value}>{texts.tableFunctions[value]}</option>
            ))}
          </select>
        </label>
        {isOfColumn && (
          <ColumnChoice words={texts.ofColumn} columns={computed} value={draft.functionColumn} set={(functionColumn) => setDraft({ ...draft, functionColumn })} />
        )}
        {computes && (
          <ColumnChoice words={texts.groupBy} columns={columns} none={texts.noGroups} value={draft.groupBy} set={(groupBy) => setDraft({ ...draft, groupBy })} />
        )}
        {(!computes || draft.groupBy !== undefined) && (
          <ColumnChoice
            words={texts.orderBy}
            columns={columns}
            none={texts.asInTable}
            value={draft.orderBy}
            set={(orderBy) => setDraft({ ...draft, orderBy })}
          />
        )}
      </div>
      {draft.orderBy !== undefined && (
        <label class="choice">
          <input type="checkbox" checked={draft.isDescending ?? false} onChange={(event) => setDraft({ ...draft, isDescending: event.currentTarget.checked })} />
          {texts.descending}
        </label>
      )}
      <button class="primary">{texts.runPlan}</button>
    </form>
  );
}

interface ColumnChoiceProps {
  words: string;
  columns: readonly TableColumn[];
  /** What choosing no column means; a column has to be chosen without it. */
  none?: string;
  value: number | undefined;
  set: (column: number | undefined) => void;
}

function ColumnChoice({ words, columns, none, value, set }: ColumnChoiceProps) {
  return (
    <label class="setting">
      {words}
      <select value={value ?? ""} onChange={({ currentTarget: { value: chosen } }) => set(chosen === "" ? undefined : Number(chosen))}>
        {none !== undefined && <option value="">{none}</option>}
        {columns.map((column) => (
          <option value={column.index ?? 0}>{nameOfColumn(column)}</option>
        ))}
      </select>
    </label>
  );
}

interface ConditionProps {
  columns: readonly TableColumn[];
  condition: TableCondition;
  set: (condition: TableCondition) => void;
  remove: () => void;
}

function Condition({ columns, condition, set, remove }: ConditionProps) {
  const { column = 0, operator, values = [] } = condition;
  const isText = (at: number) => !["COLUMN_TYPE_NUMBER", "COLUMN_TYPE_DATE"].includes(columns[at]?.type ?? "");
  const operators: readonly TableOperator[] = isText(column) ? OF_TEXTS : OF_ORDER;
  const takesSeveral = (OF_TEXTS as readonly TableOperator[]).includes(operator);
  const valuesOf = (text: string, several: boolean) => (several ? text.split(";").map((each) => each.trim()) : [text]);
  return (
    <div class="settings condition">
      <ColumnChoice
        words={texts.where}
        columns={columns}
        value={column}
        set={(next = 0) => set({ ...condition, column: next, operator: isText(next) === isText(column) ? operator : "TABLE_OPERATOR_EQUAL" })}
      />
      <label class="setting">
        {texts.comparison}
        <select value={operator} onChange={({ currentTarget: { value } }) => set({ ...condition, operator: value as TableOperator })}>
          {operators.map((each) => (
            <option value={each}>{texts.tableOperators[each]}</option>
          ))}
          {!operators.includes(operator) && <option value={operator}>{texts.tableOperators[operator]}</option>}
        </select>
      </label>
      <label class="setting">
        {takesSeveral ? texts.valuesWithSemicolons : texts.value}
        <input
          required
          maxLength={1000}
          value={values.join("; ")}
          onChange={(event) => set({ ...condition, values: valuesOf(event.currentTarget.value, takesSeveral) })}
        />
      </label>
      <button type="button" class="quiet" onClick={remove}>
        {texts.remove}
      </button>
    </div>
  );
}
