import { newRequestId, type Feedback, type GroundlineClient, type Input, type Message } from "groundline-client";
import { askedOf, EVERYTHING, type Selection } from "../lib/address";
import { Changing } from "../lib/changing";
import { isAbort, problemOf } from "../lib/problem";
import { texts } from "../texts";
import { asked, recalled, taken, type Exchange, type Turn } from "./exchange";

/** The conversation on the page: its exchanges, and the one answer that is under way. */
export class Conversation extends Changing {
  exchanges: readonly Exchange[] = [];
  threadId = "";
  #running: AbortController | undefined;
  readonly #client: GroundlineClient;
  readonly #signedOut: (query: string) => void;

  constructor(client: GroundlineClient, signedOut: (query: string) => void) {
    super();
    this.#client = client;
    this.#signedOut = signedOut;
  }

  /** The question that is asked and of whose answer nothing is there; "" without one. */
  get unansweredQuery(): string {
    const last = this.exchanges.at(-1);
    return last?.state === "running" && !last.text ? last.query : "";
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  ask(query: string, selection: Selection): Promise<void> {
    const { threadId } = this;
    return this.#run(asked({ query, selection, threadId, requestId: newRequestId(), history: threadId ? [] : this.#said() }));
  }

  /** Repeat a request as it was: an answer that only got lost on its way comes again. */
  retry(exchange: Exchange): Promise<void> {
    this.exchanges = this.exchanges.filter((each) => each.id !== exchange.id);
    this.threadId = exchange.threadId;
    return this.#run(asked(exchange));
  }

  /**
   * Ask in place of a question of this conversation. What was said before it comes along, as a new thread: the old one
   * stays as it is.
   */
  askInstead(exchange: Exchange, query: string, selection: Selection): Promise<void> {
    const at = this.exchanges.findIndex((each) => each.id === exchange.id);
    this.exchanges = this.exchanges.slice(0, at);
    this.threadId = "";
    return this.ask(query, selection);
  }

  stop(): void {
    this.#running?.abort();
  }

  reset(): void {
    this.stop();
    this.threadId = "";
    this.exchanges = [];
    this.changed();
  }

  /** Show a thread that was kept. */
  async open(threadId: string): Promise<void> {
    const messages: Message[] = [];
    for await (const message of this.#client.all("getThread", { threadId })) messages.push(message);
    this.reset();
    this.threadId = threadId;
    this.exchanges = messages.flatMap((message, at) => {
      if (message.role !== "USER") return [];
      const next = messages[at + 1];
      return [recalled(message, next?.role === "USER" ? undefined : next, threadId, EVERYTHING)];
    });
    this.changed();
  }

  /** Keep what the reader thinks of an answer; an empty feedback takes it back. */
  async rate(exchange: Exchange, feedback: Input<Feedback>): Promise<Feedback | undefined> {
    if (!exchange.stored) return undefined;
    const reply = await this.#client.rateAnswer({ ...exchange.stored, feedback });
    this.#replace({ ...(this.#current(exchange) ?? exchange), feedback: reply.feedback });
    return reply.feedback;
  }

  async #run(exchange: Exchange): Promise<void> {
    if (this.#running) return;
    const abort = new AbortController();
    this.#running = abort;
    this.exchanges = [...this.exchanges, exchange];
    this.changed();
    let now = exchange;
    try {
      for await (const event of this.#client.chat(requestOf(exchange), { signal: abort.signal })) {
        now = taken(this.#current(exchange) ?? now, event);
        if (event.started && this.#current(exchange)) this.threadId = event.started.threadId;
        this.#replace(now);
      }
    } catch (error) {
      const problem = problemOf(error);
      if (abort.signal.aborted || isAbort(error)) this.#replace({ ...now, state: "stopped" });
      else if (problem.signedOut) {
        this.exchanges = this.exchanges.filter((each) => each.id !== exchange.id);
        this.#signedOut(exchange.query);
      } else {
        const message = problem.message === texts.unreachable && now.stored ? texts.brokeOff : problem.message;
        this.#replace({ ...now, state: "failed", problem: { ...problem, message } });
      }
    } finally {
      if (this.#running === abort) this.#running = undefined;
      this.changed();
    }
  }

  // Turns on this page that another thread keeps; a thread remembers its own.
  #said(): Turn[] {
    const turns = this.exchanges.flatMap(({ state, query, text }): Turn[] =>
      state === "ended" && text ? [{ role: "USER", content: query }, { role: "ASSISTANT", content: text }] : [],
    );
    return turns.slice(-MOST_MESSAGES);
  }

  #current(exchange: Exchange): Exchange | undefined {
    return this.exchanges.find((each) => each.id === exchange.id);
  }

  #replace(exchange: Exchange): void {
    this.exchanges = this.exchanges.map((each) => (each.id === exchange.id ? exchange : each));
    this.changed();
  }
}

type ChatRequest = Parameters<GroundlineClient["chat"]>[0];

// As many messages as a request may hold.
const MOST_MESSAGES = 100;

function requestOf({ query, threadId, requestId, history, selection }: Exchange): ChatRequest {
  const { effort, model, strategy } = selection;
  const options = { ...(effort && { effort }), ...(model && { generation: { model } }), ...(strategy && { rerank: { strategy } }) };
  return {
    query,
    requestId,
    ...(threadId && { threadId }),
    ...(history.length && { chatHistory: history }),
    ...askedOf(selection),
    ...(Object.keys(options).length && { options }),
  };
}
