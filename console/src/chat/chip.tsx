import type { Source } from "groundline-client";
import { useId, useRef } from "preact/hooks";
import { texts } from "../texts";

/** [n] in an answer: hover or focus shows what the source says there, a click opens it. */
export function Chip({ source, quote, open }: { source: Source; quote: string; open: () => void }) {
  const hint = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const show = () => {
    const [box, place] = [hint.current, button.current?.getBoundingClientRect()];
    if (!box || !place || !quote) return;
    box.showPopover();
    const { width, height } = box.getBoundingClientRect();
    const isAbove = place.top - height - 8 > 0;
    box.style.left = `${Math.max(8, Math.min(place.left - width / 2, innerWidth - width - 8))}px`;
    box.style.top = `${isAbove ? place.top - height - 6 : place.bottom + 6}px`;
  };
  const hide = () => {
    if (hint.current?.matches(":popover-open")) hint.current.hidePopover();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class="cite"
        aria-label={`${texts.source(source.number)}${source.title ? `: ${source.title}` : ""}`}
        aria-describedby={quote ? id : undefined}
        onMouseEnter={show}
        onMouseLeave={hide}
        onFocus={show}
        onBlur={hide}
        onClick={() => {
          hide();
          open();
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") hide();
        }}
      >
        {source.number}
      </button>
      <span ref={hint} id={id} class="quote-hint" popover="manual" role="tooltip" dir="auto">
        {quote}
      </span>
    </>
  );
}
