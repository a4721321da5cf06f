// Compiled, not run: the types fit those of the AI SDK.
import { createUIMessageStreamResponse, type UIMessage } from "ai";
import { chatRequest, toUIMessageStream } from "groundline-client/ai-sdk";
import { GroundlineClient } from "groundline-client";

export async function POST(request: Request): Promise<Response> {
  const { messages }: { messages: UIMessage[] } = await request.json();
  const client = new GroundlineClient("http://127.0.0.1:8080", "key");
  const events = client.chat({ ...chatRequest(messages), store: false }, { signal: request.signal });
  return createUIMessageStreamResponse({ stream: toUIMessageStream(events) });
}
