// The npm library `ollama` against /api/chat and /api/generate.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { Ollama } from 'ollama';
import {
  ADD, CONTEXT, FRANCE, GREEDY, MODEL, OSLO, OSLO_ANSWER, OSLO_RESULT, STORY, TOO_LONG, TWO_CITIES,
  WEATHER, golden, startServer,
} from './server.mjs';

const TOOLS = [{ type: 'function', function: WEATHER }];
let server, client;
before(async () => {
  server = await startServer();
  client = new Ollama({ host: server.url });
});
after(() => server.stop());

const user = (content) => ({ role: 'user', content });
const chat = (messages, more = {}) => client.chat({ model: MODEL, messages, options: GREEDY, ...more });

async function all(stream) {
  const parts = [];
  for await (const part of await stream) parts.push(part);
  return parts;
}

it('answers, and remembers what it is told', async () => {
  const first = await chat([user('My name is Ana.')]);
  assert.deepEqual([first.model, first.done_reason], [MODEL, 'stop']);
  const second = await chat([user('My name is Ana.'), first.message, user('What is my name?')]);
  assert.equal(second.message.content, 'Your name is Ana.');
});

it('streams', async () => {
  const parts = await all(chat([user(FRANCE)], { stream: true }));
  assert.equal(parts.map((p) => p.message.content).join(''), golden(FRANCE).answer);
  assert.ok(parts.at(-1).done);
  const generated = await all(client.generate(
    { model: MODEL, prompt: FRANCE, options: GREEDY, stream: true }));
  assert.equal(generated.map((p) => p.response).join(''), golden(FRANCE).answer);
});

it('thinks', async () => {
  const { answer, reasoning } = golden(ADD, true);
  const { message } = await chat([user(ADD)], { think: 'medium' });
  assert.equal(message.content, answer);
  assert.equal(message.thinking.trim(), reasoning);
  const parts = await all(chat([user(ADD)], { think: 'medium', stream: true }));
  assert.equal(parts.map((p) => p.message.thinking ?? '').join(''), message.thinking);
});

it('calls a tool and reads its answer', async () => {
  const parts = await all(chat([user(OSLO)], { tools: TOOLS, stream: true }));
  const calls = parts.flatMap((p) => p.message.tool_calls ?? []);
  assert.deepEqual(calls.map((c) => [c.function.name, c.function.arguments]),
    [['get_weather', { city: 'Oslo' }]]);
  const again = await chat([user(OSLO), { role: 'assistant', content: '', tool_calls: calls },
    { role: 'tool', tool_name: 'get_weather', content: OSLO_RESULT }], { tools: TOOLS });
  assert.equal(again.message.content, OSLO_ANSWER);
});

it('reads the answers of two calls in their order', async () => {
  const calls = ['Rome', 'Cairo'].map((city) => (
    { function: { name: 'get_weather', arguments: { city } } }));
  const results = ['{"temperature": 21, "sky": "sunny"}', '{"temperature": 33, "sky": "windy"}']
    .map((content) => ({ role: 'tool', tool_name: 'get_weather', content }));
  const head = [user(TWO_CITIES), { role: 'assistant', content: '', tool_calls: calls }];
  const answer = await chat([...head, ...results], { tools: TOOLS });
  assert.ok(answer.message.content);
});

it('stops when its client leaves', () => server.assertCancelled(async () => {
  const stream = await chat([user(STORY)], {
    stream: true, options: { temperature: 1.5, num_predict: 4000 } });
  for await (const _ of stream) break;
  stream.abort();
}));

it('says what is wrong', async () => {
  await assert.rejects(chat([user(TOO_LONG)]), (error) => {
    assert.equal(error.status_code, 400);
    assert.match(error.message, new RegExp(String(CONTEXT)));
    return true;
  });
  await assert.rejects(chat([user('x')], { think: 'wild' }), { status_code: 400 });
  await assert.rejects(client.embed({ model: MODEL, input: 'x' }), { status_code: 400 });
});
