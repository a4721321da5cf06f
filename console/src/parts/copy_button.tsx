import { useEffect, useState } from "preact/hooks";
import { texts } from "../texts";
import { announce } from "./announcer";

// Pages that came over plain http from another machine have no clipboard of their own.
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return await navigator.clipboard.writeText(text);
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "unseen";
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

/** A button that copies a text and says so. */
export function CopyButton({ text, words = texts.copy }: { text: () => string; words?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const act = async () => {
    await copy(text());
    setCopied(true);
    announce(texts.copied);
  };
  return (
    <button type="button" class="copy quiet" onClick={() => void act()}>
      {isCopied ? texts.copied : words}
    </button>
  );
}
