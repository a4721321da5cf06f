import { useEffect, useState } from "preact/hooks";

/** Something that changes while views show it. */
export class Changing {
  #listeners = new Set<() => void>();

  /** Have the listener called after each change; return what ends that. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Draw the component again when what it shows changes, once for each picture that the screen shows. */
export function useChanges(shown: Changing): void {
  const [, redraw] = useState(0);
  useEffect(() => {
    let frame = 0;
    const draw = () => {
      frame = 0;
      redraw((before) => before + 1);
    };
    const unsubscribe = shown.subscribe(() => {
      frame ||= requestAnimationFrame(draw);
    });
    return () => {
      unsubscribe();
      cancelAnimationFrame(frame);
    };
  }, [shown]);
}
