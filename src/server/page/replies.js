// Replies under way: one for each conversation that has asked for one.
import { streamChat } from "./api.js";
import { addMessage, promptOf } from "./conversation.js";

const kSaveMillis = 500;

// Settings that are left empty are the server's own.
function optionsOf(settings) {
  const options = {};
  const names = { temperature: "temperature", topP: "top_p", maxTokens: "num_predict", seed: "seed" };
  for (const [name, option] of Object.entries(names)) {
    if (typeof settings[name] === "number") options[option] = settings[name];
  }
  return options;
}

export class Replies {
  // `changed(conversation, message)` after every piece; `save(conversation)` now and then and at the
  // end; `ended(conversation, message)` last.
  constructor({ changed, save, ended }) {
    this.changed = changed;
    this.save = save;
    this.ended = ended;
    this.running = new Map();  // conversation id -> {controller, conversation}
  }

  isRunning(conversation) {
    return this.running.has(conversation.id);
  }

  stop(conversation) {
    this.running.get(conversation.id)?.controller.abort();
  }

  // Asks for a reply to `question`, a message of the conversation; resolves at its end.
  async ask(conversation, question, model) {
    const body = { model, stream: true, messages: promptOf(conversation, question),
                   think: { off: false, on: true }[conversation.settings.think ?? "off"] ??
                          conversation.settings.think,
                   options: optionsOf(conversation.settings) };
    const message = addMessage(conversation, question.id, { role: "assistant", state: "running" });
    const controller = new AbortController();
    this.running.set(conversation.id, { controller, conversation });
    message.stats = { asked: performance.now(), first: null, pieces: 0 };
    this.changed(conversation, message);
    this.save(conversation);
    let saved = performance.now();
    try {
      for await (const piece of streamChat(body, controller.signal)) {
        this.take(message, piece);
        this.changed(conversation, message);
        if (performance.now() - saved < kSaveMillis) continue;
        saved = performance.now();
        this.save(conversation);
      }
      message.state = "done";
    } catch (error) {
      // Piece counts stand in for what the server would have said at the end.
      if (error.name === "AbortError") {
        message.state = "stopped";
      } else {
        message.state = error.kind === "lost" ? "cut" : "failed";
        message.error = error.message;
        message.errorKind = error.kind;
      }
    }
    if (message.thinkingSince) this.endThinking(message);
    message.stats = finalStats(message.stats);
    this.running.delete(conversation.id);
    await this.save(conversation);
    this.ended(conversation, message);
  }

  take(message, piece) {
    const { content = "", thinking = "" } = piece.message ?? {};
    const now = performance.now();
    if (content !== "" || thinking !== "") {
      message.stats.first ??= now;
      message.stats.last = now;
      message.stats.pieces += 1;
    }
    if (thinking !== "" && !message.thinkingSince) message.thinkingSince = now;
    if (content !== "" && message.thinkingSince) this.endThinking(message);
    message.thinking += thinking;
    message.content += content;
    if (piece.done) {
      message.stats.end = { reason: piece.done_reason, reply: piece.eval_count,
                            replyNanos: piece.eval_duration, prompt: piece.prompt_eval_count,
                            promptNanos: piece.prompt_eval_duration };
    }
  }

  endThinking(message) {
    message.thoughtSeconds = (performance.now() - message.thinkingSince) / 1000;
    delete message.thinkingSince;
  }
}

// {reply, replySeconds, prompt, promptSeconds, reason, exact}; counts of a reply that did not end by
// itself are those of its pieces, which are about its tokens.
function finalStats(stats) {
  if (stats.end) {
    const { reason, reply, replyNanos, prompt, promptNanos } = stats.end;
    return { exact: true, reason, reply, replySeconds: replyNanos / 1e9, prompt,
             promptSeconds: promptNanos / 1e9 };
  }
  if (stats.first === null) return null;
  return { exact: false, reply: stats.pieces, replySeconds: (stats.last - stats.first) / 1000 };
}
