// The server: its model, and answers that arrive in pieces.

// A refusal of the server, or a failure on the way to it.
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let key = localStorage.getItem("warpwright/key") ?? "";

export const hasKey = () => key !== "";

export function setKey(given) {
  key = given;
  localStorage.setItem("warpwright/key", given);
}

async function request(path, options = {}) {
  const headers = { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error?.message ?? `The server answered with status ${response.status}.`);
}

// The model that is served: its name, its context, and how it wants to be sampled.
export async function model() {
  const list = await (await request("v1/models")).json();
  return list.data[0];
}

// Sends a conversation. Yields the chunks of its answer.
export async function* answer(body, signal) {
  const fields = { ...body, stream: true, stream_options: { include_usage: true } };
  const response = await request("v1/chat/completions", { method: "POST", body: JSON.stringify(fields), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await read(reader);
    if (done) throw new ApiError(0, "The connection ended before the answer did.");
    const events = (held + value).split("\n\n");
    held = events.pop();
    for (const event of events.filter(event => event.startsWith("data: "))) {
      if (event === "data: [DONE]") return;
      const chunk = JSON.parse(event.slice(6));
      if (chunk.error) throw new ApiError(0, chunk.error.message);
      yield chunk;
    }
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The connection was lost before the answer ended.");
  }
}
