// The server: its state, and replies as they come.
import { keepKey, recallKey } from "./store.js";

// `kind` is "key" (it wants one), "lost" (no answer, or it broke off) or "refused".
export class ApiFailure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

let apiKey = recallKey();

export function setKey(key) {
  apiKey = key;
  keepKey(key);
}

function messageOf(status, text) {
  try {
    const { error } = JSON.parse(text);
    const message = error?.message ?? error;
    if (typeof message === "string" && message !== "") return message;
  } catch {
    // Not the server's own words.
  }
  return `The server answered ${status}.`;
}

async function request(path, { body = null, signal = null } = {}) {
  const headers = {};
  if (apiKey !== "") headers.Authorization = `Bearer ${apiKey}`;
  if (body !== null) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body === null ? "GET" : "POST", headers, signal,
                                   cache: "no-store", body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError" || error.name === "TimeoutError") throw error;
    throw new ApiFailure("lost", "The server does not answer.");
  }
  if (response.ok) return response;
  const message = messageOf(response.status, await response.text().catch(() => ""));
  throw new ApiFailure(response.status === 401 ? "key" : "refused", message);
}

// "ok", "loading" or "gone".
export async function fetchHealth() {
  try {
    const response = await fetch("/health", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    return response.ok ? "ok" : response.status === 503 ? "loading" : "gone";
  } catch {
    return "gone";
  }
}

export async function fetchStatus() {
  return (await request("/slotstream/status", { signal: AbortSignal.timeout(5000) })).json();
}

// What the model can: "vision", "thinking" and the like.
export async function fetchCapabilities(model) {
  const facts = await (await request("/api/show", { body: { model } })).json();
  return facts.capabilities ?? [];
}

// The pieces of /api/chat's answer; the last has `done`. Fails as ApiFailure, or with the signal's
// AbortError.
export async function* streamChat(body, signal) {
  const response = await request("/api/chat", { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiFailure("lost", "The connection was lost.");
    }
    if (piece.done) throw new ApiFailure("lost", "The connection was lost.");
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.trim() === "") continue;
      const answer = JSON.parse(line);
      if (answer.error !== undefined) throw new ApiFailure("refused", String(answer.error));
      yield answer;
      if (answer.done) return;
    }
  }
}
