/**
 * The events of a stream of bytes, as the HTML standard defines it, however the bytes are split.
 * An event that the stream's end cuts off is not one.
 *
 * @param {AsyncIterable<Uint8Array>} chunks
 * @returns {AsyncGenerator<{data: string, event: string, lastEventId: string}>}
 */
export async function* events(chunks) {
  const decoder = new TextDecoder(); // drops a byte order mark
  let pending = "";
  let afterCarriageReturn = false;
  let data = [];
  let event = "";
  let lastEventId = "";
  for await (const chunk of chunks) {
    let text = decoder.decode(chunk, { stream: true });
    if (text && afterCarriageReturn) {
      // A CR ends its line at once; a LF that then follows belongs to it.
      if (text.startsWith("\n")) text = text.slice(1);
      afterCarriageReturn = false;
    }
    pending += text;
    for (let end; (end = /\r\n|\n|\r/.exec(pending)); ) {
      const line = pending.slice(0, end.index);
      pending = pending.slice(end.index + end[0].length);
      if (end[0] === "\r" && pending === "") afterCarriageReturn = true;
      if (line === "") {
        if (data.length > 0) yield { data: data.join("\n"), event: event || "message", lastEventId };
        data = [];
        event = "";
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") data.push(value);
      else if (name === "event") event = value;
      else if (name === "id" && !value.includes("\0")) lastEventId = value;
    }
  }
}
