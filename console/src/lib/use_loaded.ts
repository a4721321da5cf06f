import { useCallback, useEffect, useState } from "preact/hooks";
import { isAbort, problemOf, type Problem } from "./problem";

interface Loaded<T> {
  value?: T;
  problem?: Problem;
  isLoading: boolean;
  /** Load again. */
  reload(): void;
}

/**
 * Load what a view shows, and again when `inputs` change. What is there stays until the new is; what is not wanted any
 * more is cancelled. A view of another thing has another key.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<{ value?: T; problem?: Problem; isLoading: boolean }>({ isLoading: true });
  useEffect(() => {
    const abort = new AbortController();
    setState(({ value }) => ({ value, isLoading: true }));
    load(abort.signal).then(
      (value) => setState({ value, isLoading: false }),
      (error: unknown) => {
        if (!isAbort(error)) setState(({ value }) => ({ value, problem: problemOf(error), isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [...inputs, round]);
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) };
}
