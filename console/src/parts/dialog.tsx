import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { texts } from "../texts";

interface DialogProps {
  title: string;
  class?: string;
  /** Under the title. */
  about?: ComponentChildren;
  close: () => void;
  children: ComponentChildren;
  id?: string;
}

/** A modal dialog; Escape, the button and a click beside it close it. */
export function Dialog({ title, about, close, children, id, class: name = "" }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    // Where it came from, if that is still there.
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={box}
      id={id}
      class={name}
      aria-labelledby={titleId}
      onClose={close}
      onClick={(event) => {
        if (event.target === box.current) box.current?.close();
      }}
    >
      <div class="dialog-head">
        <div>
          <h2 id={titleId} dir="auto">
            {title}
          </h2>
          {about}
        </div>
        <button type="button" class="close" onClick={() => box.current?.close()}>
          {texts.close}
        </button>
      </div>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
