// The npm library `@anthropic-ai/sdk` against /v1/messages.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import {
  ADD, CONTEXT, FRANCE, GREEDY, MODEL, OSLO, OSLO_ANSWER, OSLO_RESULT, STORY, TOO_LONG, TWO_CITIES,
  WEATHER, golden, startServer,
} from './server.mjs';

const TOOL = { name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.parameters };
let server, client;
before(async () => {
  server = await startServer();
  client = new Anthropic({ baseURL: server.url, apiKey: 'x', maxRetries: 0 });
});
after(() => server.stop());

const user = (content) => ({ role: 'user', content });
const body = (messages, more = {}) => ({ model: MODEL, messages, max_tokens: 300, ...GREEDY, ...more });
const create = (messages, more) => client.messages.create(body(messages, more));

it('answers, and remembers what it is told', async () => {
  const first = await create([user('My name is Ana.')]);
  assert.deepEqual([first.model, first.stop_reason], [MODEL, 'end_turn']);
  const second = await create([user('My name is Ana.'),
    { role: 'assistant', content: first.content }, user('What is my name?')]);
  assert.equal(second.content[0].text, 'Your name is Ana.');
  const counted = await client.messages.countTokens({ model: MODEL, messages: [user('My name is Ana.')] });
  assert.equal(counted.input_tokens, first.usage.input_tokens);
});

it('streams', async () => {
  let text = '';
  const final = await client.messages.stream(body([user(FRANCE)]))
    .on('text', (delta) => { text += delta; }).finalMessage();
  assert.equal(text, golden(FRANCE).answer);
  assert.equal(final.content[0].text, text);
  assert.deepEqual(final.usage.output_tokens, (await create([user(FRANCE)])).usage.output_tokens);
});

it('thinks', async () => {
  const { answer, reasoning } = golden(ADD, true);
  const more = { thinking: { type: 'enabled', budget_tokens: 8000 } };
  const plain = (await create([user(ADD)], more)).content;
  const streamed = (await client.messages.stream(body([user(ADD)], more)).finalMessage()).content;
  for (const content of [plain, streamed]) {
    assert.deepEqual(content.map((block) => block.type), ['thinking', 'text']);
    assert.equal(content[0].thinking.trim(), reasoning);
    assert.equal(content[1].text, answer);
    assert.equal(content[0].signature, plain[0].signature);
  }
  const again = await create([user(ADD), { role: 'assistant', content: streamed }, user(FRANCE)], more);
  assert.ok(again.content.length > 0);
});

it('runs a tool', async () => {
  const asked = [];
  const final = await client.beta.messages.toolRunner({
    ...body([user(OSLO)]), stream: false,
    tools: [{ ...TOOL, parse: (input) => input,
      run: ({ city }) => { asked.push(city); return OSLO_RESULT; } }],
  });
  assert.deepEqual(asked, ['Oslo']);
  assert.equal(final.content[0].text, OSLO_ANSWER);
});

it('streams a call', async () => {
  const final = await client.messages.stream(body([user(OSLO)], { tools: [TOOL] })).finalMessage();
  assert.equal(final.stop_reason, 'tool_use');
  assert.deepEqual(final.content[0].input, { city: 'Oslo' });
});

it('makes of two calls what it makes of them in another order', async () => {
  const head = [user(TWO_CITIES), { role: 'assistant', content: ['Rome', 'Cairo'].map((city) => (
    { type: 'tool_use', id: 'toolu_' + city, name: 'get_weather', input: { city } })) }];
  const results = [['Rome', '{"temperature": 21, "sky": "sunny"}'],
    ['Cairo', '{"temperature": 33, "sky": "windy"}']].map(([city, content]) => (
    { type: 'tool_result', tool_use_id: 'toolu_' + city, content }));
  const a = await create([...head, user(results)], { tools: [TOOL] });
  const b = await create([...head, user([...results].reverse())], { tools: [TOOL] });
  assert.equal(a.content[0].type, 'text');
  assert.deepEqual(a.content, b.content);
});

it('stops when its client leaves', () => server.assertCancelled(async () => {
  const stream = client.messages.stream(body([user(STORY)], { temperature: 1.5, max_tokens: 4000 }));
  for await (const event of stream) {
    if (event.type === 'content_block_delta') break;
  }
}));

it('says what is wrong', async () => {
  await assert.rejects(create([user(TOO_LONG)]), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.message, new RegExp(`prompt is too long: \\d+ tokens > ${CONTEXT} maximum`));
    return true;
  });
  await assert.rejects(create([user('x')], { max_tokens: 'many' }), Anthropic.BadRequestError);
  await assert.rejects(create([{ role: 'wizard', content: 'x' }]), Anthropic.BadRequestError);
});
