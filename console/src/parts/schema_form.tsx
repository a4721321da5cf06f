import type { JsonObject } from "groundline-client";
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { choicesOf, explained, isObject, labelOf, resolved, type Schema, type Schemas } from "../lib/contract";
import { texts } from "../texts";

/** Longer texts get more than a line. */
const LINE = 2000;

interface SchemaFieldsProps {
  schemas: Schemas;
  schema: Schema;
  value: JsonObject;
  set: (path: readonly string[], value: unknown) => void;
  path?: readonly string[];
  /** Paths of fields, with dots, that are shown elsewhere or nowhere. */
  without?: ReadonlySet<string>;
}

/** A form for a type of the contract: each field with what the contract says of it, its limits and its default. */
export function SchemaFields({ schemas, schema, value, set, path = [], without = new Set() }: SchemaFieldsProps) {
  const { properties = {}, required = [] } = resolved(schemas, schema);
  return (
    <>
      {Object.entries(properties)
        .filter(([name, { description = "" }]) => !without.has([...path, name].join(".")) && !description.includes("Output only"))
        .map(([name, property]) => {
          const field = resolved(schemas, property);
          const at = [...path, name];
          const own = value[name];
          if (field.properties) {
            return (
              <Group key={name} name={name} about={explained(field.description).about}>
                <SchemaFields schemas={schemas} schema={field} value={isObject(own) ? own : {}} set={set} path={at} without={without} />
              </Group>
            );
          }
          return <Field key={name} name={name} schema={field} schemas={schemas} isRequired={required.includes(name)} value={own} set={(next) => set(at, next)} />;
        })}
    </>
  );
}

function Group({ name, about, children }: { name: string; about: string; children: ComponentChildren }) {
  return (
    <details class="group">
      <summary>
        {labelOf(name)} {about !== `${labelOf(name)}.` && <span class="hint">{about}</span>}
      </summary>
      <div class="fields">{children}</div>
    </details>
  );
}

interface FieldProps {
  name: string;
  schema: Schema;
  schemas: Schemas;
  isRequired: boolean;
  value: unknown;
  set: (value: unknown) => void;
}

function Field({ name, schema, schemas, isRequired, value, set }: FieldProps) {
  const id = useId();
  const { about, byDefault } = explained(schema.description);
  const limits = limitsOf(schema, about);
  const chosen = choicesOf(schema).find((choice) => choice.value === value);
  return (
    <div class="field">
      <label for={id}>{labelOf(name)}</label>
      <Control id={id} schema={schema} items={schema.items && resolved(schemas, schema.items)} isRequired={isRequired} byDefault={byDefault} value={value} set={set} />
      <p id={`${id}-hint`} class="hint">
        {[about, limits, chosen?.about && `${chosen.words}: ${chosen.about}`].filter(Boolean).join(" ")}
      </p>
    </div>
  );
}

// Limits that the contract's words do not say already.
function limitsOf({ minimum, maximum }: Schema, about: string): string {
  return minimum === undefined || maximum === undefined || about.includes(String(maximum)) ? "" : texts.between(minimum, maximum);
}

interface ControlProps extends Omit<FieldProps, "name" | "schemas"> {
  id: string;
  items: Schema | undefined;
  byDefault: string;
}

function Control({ id, schema, items, isRequired, byDefault, value, set }: ControlProps) {
  const common = { id, "aria-describedby": `${id}-hint`, required: isRequired };
  if (schema.enum) {
    const choices = choicesOf(schema);
    const words = choices.find((choice) => choice.value === byDefault)?.words ?? "";
    return <Select {...common} choices={choices} byDefault={words} value={String(value ?? "")} set={(next) => set(next || undefined)} />;
  }
  if (schema.type === "boolean") {
    const choices = [
      { value: "true", words: texts.yes },
      { value: "false", words: texts.no },
    ];
    const words = choices.find((choice) => choice.value === byDefault)?.words ?? "";
    return <Select {...common} choices={choices} byDefault={words} value={String(value ?? "")} set={(next) => set(next ? next === "true" : undefined)} />;
  }
  if (schema.type === "integer" || schema.type === "number") {
    return (
      <input
        {...common}
        type="number"
        step={schema.type === "integer" ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        placeholder={byDefault}
        value={value === undefined ? "" : Number(value)}
        onInput={({ currentTarget: box }) => set(box.value ? box.valueAsNumber : undefined)}
      />
    );
  }
  if (schema.type === "string") {
    const text = { ...common, maxLength: schema.maxLength, placeholder: byDefault, dir: "auto" as const, value: String(value ?? "") };
    return (schema.maxLength ?? 0) > LINE ? (
      <textarea {...text} rows={3} onInput={(event) => set(event.currentTarget.value || undefined)} />
    ) : (
      <input {...text} onInput={(event) => set(event.currentTarget.value || undefined)} />
    );
  }
  if (schema.type === "array" && items?.type === "string") {
    return <Lines {...common} value={Array.isArray(value) ? value.map(String) : []} set={(lines) => set(lines.length ? lines : undefined)} />;
  }
  return <Json {...common} value={value} set={set} />;
}

interface SelectProps {
  id: string;
  required: boolean;
  choices: readonly { value: string; words: string }[];
  byDefault: string;
  value: string;
  set: (value: string) => void;
}

function Select({ choices, byDefault, value, set, ...common }: SelectProps) {
  return (
    <select {...common} value={value} onChange={(event) => set(event.currentTarget.value)}>
      <option value="">{byDefault ? texts.byDefault(byDefault) : texts.notSet}</option>
      {choices.map((choice) => (
        <option value={choice.value}>{choice.words}</option>
      ))}
    </select>
  );
}

/** One text in each line. */
function Lines({ value, set, ...common }: { id: string; required: boolean; value: readonly string[]; set: (lines: string[]) => void }) {
  const [text, setText] = useState(value.join("\n"));
  return (
    <textarea
      {...common}
      rows={Math.min(6, value.length + 1)}
      placeholder={texts.oneInEachLine}
      dir="auto"
      value={text}
      onInput={({ currentTarget: box }) => {
        setText(box.value);
        set(box.value.split("\n").map((line) => line.trim()).filter(Boolean));
      }}
    />
  );
}

/** What has no form of its own, as JSON. */
function Json({ value, set, ...common }: { id: string; required: boolean; value: unknown; set: (value: unknown) => void }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, undefined, 2));
  return (
    <textarea
      {...common}
      class="code-box"
      rows={3}
      placeholder="JSON"
      dir="ltr"
      value={text}
      onInput={({ currentTarget: box }) => {
        setText(box.value);
        try {
          set(box.value.trim() ? JSON.parse(box.value) : undefined);
          box.setCustomValidity("");
        } catch {
          box.setCustomValidity(texts.notJson);
        }
      }}
    />
  );
}
