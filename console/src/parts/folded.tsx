import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface FoldedProps {
  words: string;
  id?: string;
  class?: string;
  /** Whether it is open at first. */
  isOpened?: boolean;
  children: ComponentChildren;
}

/** What is folded away behind a word, and made, with what it loads, while it is open. */
export function Folded({ words, id, class: name, isOpened = false, children }: FoldedProps) {
  const [isOpen, setOpen] = useState(isOpened);
  return (
    <details id={id} class={name} open={isOpened} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words}</summary>
      {isOpen && children}
    </details>
  );
}
