// Server-sent events from the body of a fetch: EventSource cannot send a key.

/**
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} alive called for everything that arrives, comments too
 * @returns {AsyncGenerator<{event: string, data: string, id: string}>}
 */
export async function* events(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const found = parsed(part);
        if (found) yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** One block of lines; null where it has no data. */
export function parsed(/** @type {string} */ block) {
  const found = { event: "message", data: "", id: "" };
  /** @type {string[]} */
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") found[name] = value;
  }
  found.data = data.join("\n");
  return data.length || found.event !== "message" ? found : null;
}
