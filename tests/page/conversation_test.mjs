// Conversations as data. Run by node --test.
import assert from "node:assert/strict";
import test from "node:test";

import { addMessage, alternativesOf, fileName, isEmptyReply, newConversation, pathOf, promptOf,
         removeMessage, settle, showBranch, toMarkdown } from "../../src/server/page/conversation.js";

function ask(conversation, parent, text) {
  const question = addMessage(conversation, parent, { role: "user", content: text });
  return [question, addMessage(conversation, question.id, { role: "assistant", content: `re ${text}` })];
}
const texts = (conversation) => pathOf(conversation).map((message) => message.content);

test("an edited message begins a branch, and both stay", () => {
  const c = newConversation({});
  const [q1, a1] = ask(c, null, "one");
  const [q2] = ask(c, a1.id, "two");
  assert.deepEqual(texts(c), ["one", "re one", "two", "re two"]);
  const [q3] = ask(c, q2.parent, "three");
  assert.deepEqual(texts(c), ["one", "re one", "three", "re three"]);
  assert.deepEqual(alternativesOf(c, q2), [q2, q3]);
  assert.deepEqual(alternativesOf(c, q1), [q1]);
  showBranch(c, q2.id);
  assert.deepEqual(texts(c), ["one", "re one", "two", "re two"]);
});

test("a second reply stands beside the first", () => {
  const c = newConversation({});
  const [q, a] = ask(c, null, "one");
  const b = addMessage(c, q.id, { role: "assistant", content: "again" });
  assert.deepEqual(alternativesOf(c, a), [a, b]);
  assert.deepEqual(texts(c), ["one", "again"]);
});

test("a reply that failed without a word makes room for the next", () => {
  const c = newConversation({});
  const q = addMessage(c, null, { role: "user", content: "one" });
  const a = addMessage(c, q.id, { role: "assistant", state: "failed" });
  assert.equal(isEmptyReply(a), true);
  assert.equal(isEmptyReply({ ...a, thinking: "hm" }), false);
  assert.equal(isEmptyReply(q), false);
  removeMessage(c, a);
  assert.deepEqual(texts(c), ["one"]);
});

test("the model is told the branch up to the question, system prompt first", () => {
  const c = newConversation({ system: " Be brief. " });
  const [, a] = ask(c, null, "one");
  const picture = { name: "p", type: "image/png", data: "AAAA" };
  const q = addMessage(c, a.id, { role: "user", content: "two", images: [picture] });
  addMessage(c, q.id, { role: "assistant", content: "not yet", thinking: "hm" });
  assert.deepEqual(promptOf(c, q), [
    { role: "system", content: "Be brief." }, { role: "user", content: "one" },
    { role: "assistant", content: "re one" }, { role: "user", content: "two", images: ["AAAA"] }]);
});

test("the title is the first message's first line, until it is named", () => {
  const c = newConversation({});
  ask(c, null, `  ${"word ".repeat(30)}\nmore`);
  assert.ok(c.title.length <= 60 && c.title.endsWith("…"));
  c.title = "Mine";
  c.named = true;
  ask(c, null, "other");
  assert.equal(c.title, "Mine");
});

test("a reply that a page left behind is cut, and keeps its text", () => {
  const c = newConversation({});
  const q = addMessage(c, null, { role: "user", content: "one" });
  const a = addMessage(c, q.id, { role: "assistant", content: "so f", state: "running", thinkingSince: 5 });
  assert.equal(settle(c), true);
  assert.equal(a.state, "cut");
  assert.equal(a.content, "so f");
  assert.ok(!("thinkingSince" in a));
  assert.equal(settle(c), false);
});

test("as Markdown, and the name of its file", () => {
  const c = newConversation({ system: "S" });
  const q = addMessage(c, null, { role: "user", content: "What/is?" });
  addMessage(c, q.id, { role: "assistant", content: "It is.", thinking: "a\nb" });
  assert.equal(toMarkdown(c), "# What/is?\n\n## System\n\nS\n\n## You\n\nWhat/is?\n\n## Model\n\n> a\n> b\n\nIt is.\n");
  assert.equal(fileName(c, "md"), "What-is.md");
  c.title = "../..";
  assert.equal(fileName(c, "json"), "conversation.json");
});
