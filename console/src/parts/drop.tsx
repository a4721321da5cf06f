import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { filesOf } from "../documents/uploads";
import { texts } from "../texts";

interface DropProps {
  id: string;
  label: string;
  words: string;
  /** Called with the files of a drop or a choice, folders with all that is in them. */
  add: (files: { path: string; file: File }[]) => void;
  children?: ComponentChildren;
}

/** Where files and folders are dropped, or chosen. */
export function Drop({ id, label, words, add, children }: DropProps) {
  const [isOver, setOver] = useState(false);
  const choose = (input: HTMLInputElement) => {
    add([...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  };
  return (
    <section
      id={id}
      class={isOver ? "drop over" : "drop"}
      aria-label={label}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer) void filesOf(event.dataTransfer).then(add);
      }}
    >
      <p>{words}</p>
      <div class="row">
        <label class="button">
          {texts.chooseFiles}
          <input type="file" class="unseen" multiple onChange={(event) => choose(event.currentTarget)} />
        </label>
        <label class="button">
          {texts.chooseFolder}
          <input
            type="file"
            class="unseen"
            multiple
            ref={(box) => {
              if (box) box.webkitdirectory = true;
            }}
            onChange={(event) => choose(event.currentTarget)}
          />
        </label>
      </div>
      {children}
    </section>
  );
}
