// A conversation: messages in a tree, for an edited message or a second reply begins a branch. Plain
// data, as it is kept; nothing here touches the page.
//
// {id, title, named, created, updated, settings, leaf, messages: {id: message}}; a message is {id,
// parent, role, content, thinking, images, at, state, error, stats}. `leaf` is the last message of
// the branch that is shown. A reply's state is "running", "done", "stopped", "cut" (the connection
// went, or the page) or "failed"; `error` says why.

let lastId = 0;

// Ids sort by time; several pages may make them at once.
function freshId() {
  lastId = Math.max(lastId + 1, Date.now());
  return `${lastId.toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
}

export function newConversation(settings) {
  const now = Date.now();
  return { id: freshId(), title: "New conversation", named: false, created: now, updated: now,
           settings: { ...settings }, leaf: null, messages: {} };
}

export function addMessage(conversation, parent, fields) {
  const message = { id: freshId(), parent, at: Date.now(), content: "", thinking: "", images: [],
                    state: "done", error: null, stats: null, ...fields };
  conversation.messages[message.id] = message;
  conversation.leaf = message.id;
  conversation.updated = message.at;
  if (!conversation.named && message.role === "user" && parent === null) {
    conversation.title = titleOf(message.content);
  }
  return message;
}

// A reply that failed before its first word is no version worth keeping.
export function isEmptyReply(message) {
  return message.role === "assistant" && message.state !== "done" && message.content === "" &&
         message.thinking === "";
}

// Only for a message that nothing follows.
export function removeMessage(conversation, message) {
  delete conversation.messages[message.id];
  conversation.leaf = message.parent;
}

// From the first message to the leaf.
export function pathOf(conversation) {
  const path = [];
  for (let id = conversation.leaf; id !== null; id = conversation.messages[id].parent) {
    path.push(conversation.messages[id]);
  }
  return path.reverse();
}

// The messages that stand in this one's place on the branches, itself among them, by age.
export function alternativesOf(conversation, message) {
  return Object.values(conversation.messages)
    .filter((other) => other.parent === message.parent && other.role === message.role);
}

// Shows the branch through `id`, as it was last left.
export function showBranch(conversation, id) {
  for (;;) {
    const below = Object.values(conversation.messages).filter((message) => message.parent === id);
    if (below.length === 0) break;
    id = below.at(-1).id;
  }
  conversation.leaf = id;
}

function titleOf(content) {
  const line = content.trim().split("\n")[0].replace(/\s+/g, " ");
  if (line === "") return "New conversation";
  return line.length <= 60 ? line : `${line.slice(0, 57).trimEnd()}…`;
}

// What the model is told: /api/chat's messages up to and with `last`.
export function promptOf(conversation, last) {
  const messages = [];
  const system = conversation.settings.system?.trim();
  if (system) messages.push({ role: "system", content: system });
  const whole = { ...conversation, leaf: last.id };
  for (const message of pathOf(whole)) {
    const { role, content, thinking, images } = message;
    messages.push({ role, content, ...(thinking ? { thinking } : {}),
                    ...(images.length > 0 ? { images: images.map((image) => image.data) } : {}) });
  }
  return messages;
}

// A page that went away while a reply came keeps what had come.
export function settle(conversation) {
  let changed = false;
  for (const message of Object.values(conversation.messages)) {
    if (message.state !== "running") continue;
    message.state = "cut";
    message.error = "The page was closed while this reply came.";
    // Times of that page mean nothing here.
    message.stats = null;
    delete message.thinkingSince;
    changed = true;
  }
  return changed;
}

export function toMarkdown(conversation) {
  const parts = [`# ${conversation.title}`];
  const system = conversation.settings.system?.trim();
  if (system) parts.push(`## System\n\n${system}`);
  for (const message of pathOf(conversation)) {
    parts.push(message.role === "user" ? "## You" : "## Model");
    if (message.thinking) parts.push(message.thinking.trim().replace(/^/gm, "> "));
    if (message.images.length > 0) parts.push(`(${message.images.length} pictures)`);
    parts.push(message.content.trim());
    if (message.error) parts.push(`*${message.error}*`);
  }
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

// A name for a file.
export function fileName(conversation, ending) {
  const plain = conversation.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${plain || "conversation"}.${ending}`;
}
