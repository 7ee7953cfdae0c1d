// The AI SDK (`ai` with `@ai-sdk/openai-compatible`) against /v1/chat/completions.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  ADD, FRANCE, MODEL, OSLO, OSLO_ANSWER, OSLO_RESULT, STORY, TOO_LONG, TWO_CITIES, golden,
  startServer,
} from './server.mjs';

let server, model;
before(async () => {
  server = await startServer();
  const provider = createOpenAICompatible({
    name: 'slotstream', baseURL: server.url + '/v1', includeUsage: true,
    supportsStructuredOutputs: true,
  });
  model = provider(MODEL);
});
after(() => server.stop());

const ask = (more) => ({ model, temperature: 0, presencePenalty: 0, maxRetries: 0, ...more });
const thinking = { providerOptions: { slotstream: { reasoningEffort: 'medium' } } };

function weather(asked) {
  return { get_weather: tool({
    description: 'Get the weather in a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => { asked.push(city); return OSLO_RESULT; },
  }) };
}

it('answers, and remembers what it is told', async () => {
  const messages = [{ role: 'user', content: 'My name is Ana.' }];
  const first = await generateText(ask({ messages }));
  assert.equal(first.finishReason, 'stop');
  const second = await generateText(ask({ messages: [...messages, ...first.response.messages,
    { role: 'user', content: 'What is my name?' }] }));
  assert.equal(second.text, 'Your name is Ana.');
  assert.ok(second.usage.inputTokens > first.usage.inputTokens);
});

it('streams', async () => {
  const stream = streamText(ask({ prompt: FRANCE }));
  let text = '';
  for await (const delta of stream.textStream) text += delta;
  assert.equal(text, golden(FRANCE).answer);
  assert.ok((await stream.usage).outputTokens > 0);
});

it('thinks', async () => {
  const { answer, reasoning } = golden(ADD, true);
  const plain = await generateText(ask({ prompt: ADD, ...thinking }));
  assert.equal(plain.text, answer);
  assert.equal(plain.reasoningText.trim(), reasoning);
  const stream = streamText(ask({ prompt: ADD, ...thinking }));
  assert.equal((await stream.reasoningText).trim(), reasoning);
});

it('runs a tool, streamed and plain', async () => {
  for (const run of [generateText, streamText]) {
    const asked = [];
    const result = await run(ask({ prompt: OSLO, tools: weather(asked), stopWhen: stepCountIs(4) }));
    assert.equal(await result.text, OSLO_ANSWER);
    assert.deepEqual(asked, ['Oslo']);
  }
});

it('sends the answers of two calls', async () => {
  const calls = ['Rome', 'Cairo'].map((city) => (
    { type: 'tool-call', toolCallId: city, toolName: 'get_weather', input: { city } }));
  const results = [['Rome', 21, 'sunny'], ['Cairo', 33, 'windy']].map(([city, temperature, sky]) => (
    { type: 'tool-result', toolCallId: city, toolName: 'get_weather',
      output: { type: 'json', value: { temperature, sky } } }));
  const answer = async (order) => (await generateText(ask({ tools: weather([]), messages: [
    { role: 'user', content: TWO_CITIES }, { role: 'assistant', content: calls },
    { role: 'tool', content: order }] }))).text;
  const text = await answer(results);
  assert.ok(text);
  assert.equal(text, await answer([...results].reverse()));
});

it('stops when its client leaves', () => server.assertCancelled(async () => {
  const leaving = new AbortController();
  const stream = streamText(ask({
    prompt: STORY, temperature: 1.5, maxOutputTokens: 4000, abortSignal: leaving.signal }));
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta') leaving.abort();
  }
}));

it('says what is wrong', async () => {
  await assert.rejects(generateText(ask({ prompt: TOO_LONG })), (error) => {
    assert.ok(APICallError.isInstance(error));
    assert.equal(error.statusCode, 400);
    assert.match(error.responseBody, /context_length_exceeded/);
    return true;
  });
  await assert.rejects(generateText(ask({ prompt: 'x', providerOptions: {
    slotstream: { reasoningEffort: 'wild' } } })), APICallError);
});
