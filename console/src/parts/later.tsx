import type { ComponentType, JSX } from "preact";
import { useLoaded } from "../lib/use_loaded";
import { texts } from "../texts";
import { Failure } from "./failure";

/** A component that is loaded when it is first shown. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => JSX.Element {
  let loaded: ComponentType<P> | undefined;
  return function Later(props: P) {
    const { value: Loaded = loaded, problem, reload } = useLoaded(async () => {
      // Another release has other files.
      loaded ??= await load().catch(() => Promise.reject(new Error(texts.partNotLoaded)));
      return loaded;
    }, []);
    if (Loaded) return <Loaded {...props} />;
    return problem ? <Failure problem={{ ...problem, retryable: true }} retry={reload} /> : <p class="status busy">{texts.loading}</p>;
  };
}
