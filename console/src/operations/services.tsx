import { useEffect, useState } from "preact/hooks";
import { announce } from "../parts/announcer";
import { operations } from "../texts/operations";
import { Section } from "./section";

const SERVICES = ["coordinator", "retriever", "reranker", "generator", "ingestor", "bridge"] as const;
/** Time between two looks, in milliseconds. */
const LOOK_MS = 5_000;

type Health = "ready" | "notReady" | "unknown";

/** Whether each service is ready, as it is now. */
export function Services() {
  const [health, setHealth] = useState<Partial<Record<string, Health>>>({});
  useEffect(() => {
    const abort = new AbortController();
    let before: typeof health = {};
    const look = async () => {
      if (document.hidden) return;
      const found = await Promise.all(SERVICES.map(async (name) => [name, await healthOf(name, abort.signal)] as const));
      if (abort.signal.aborted) return;
      for (const [name, now] of found) {
        if (now === "notReady" && before[name] !== now) announce(operations.isNotReady(name));
        if (now === "ready" && before[name] === "notReady") announce(operations.isReady(name));
      }
      before = Object.fromEntries(found);
      setHealth(before);
    };
    void look();
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, []);
  return (
    <Section id="services" title={operations.services} hint={operations.servicesHint}>
      <ul class="cards">
        {SERVICES.map((name) => {
          const found = health[name];
          return (
            <li key={name} class="card">
              <strong>{name}</strong>
              <span class="hint">{operations.duties[name]}</span>
              <span class={`health ${found ?? ""}`}>{found ? operations[found] : "…"}</span>
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

async function healthOf(name: string, signal: AbortSignal): Promise<Health> {
  try {
    const { status } = await fetch(`healthz/${name}`, { signal });
    return status === 200 ? "ready" : status === 503 ? "notReady" : "unknown";
  } catch {
    return "unknown";
  }
}
