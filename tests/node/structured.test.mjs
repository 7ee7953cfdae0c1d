// JSON by a schema, through the libraries that ask for it each in its way.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { Output, generateText } from 'ai';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { z } from 'zod';
import { GREEDY, MODEL, SCHEMA, startServer } from './server.mjs';

let server;
before(async () => { server = await startServer(); });
after(() => server.stop());

const QUESTION = 'Plan a trip.';
const messages = [{ role: 'user', content: QUESTION }];

function assertFollows(value) {
  assert.deepEqual(Object.keys(value).sort(), ['city', 'days']);
  assert.equal(typeof value.city, 'string');
  assert.ok(Number.isInteger(value.days));
}

it('openai, chat completions', async () => {
  const client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'x', maxRetries: 0 });
  const format = { type: 'json_schema', json_schema: { name: 'trip', strict: true, schema: SCHEMA } };
  const request = { model: MODEL, messages, max_tokens: 500, response_format: format, ...GREEDY };
  assertFollows((await client.chat.completions.parse(request)).choices[0].message.parsed);
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  assertFollows(streamed.choices[0].message.parsed);
  const object = await client.chat.completions.create(
    { ...request, response_format: { type: 'json_object' } });
  assert.equal(typeof JSON.parse(object.choices[0].message.content), 'object');
});

it('openai, responses', async () => {
  const client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'x', maxRetries: 0 });
  const answer = await client.responses.parse({
    model: MODEL, input: QUESTION, max_output_tokens: 500, ...GREEDY,
    text: { format: { type: 'json_schema', name: 'trip', strict: true, schema: SCHEMA } } });
  assertFollows(answer.output_parsed);
});

it('anthropic', async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: 'x', maxRetries: 0 });
  const answer = await client.messages.create({
    model: MODEL, messages, max_tokens: 500, ...GREEDY,
    output_config: { format: { type: 'json_schema', schema: SCHEMA } } });
  assertFollows(JSON.parse(answer.content[0].text));
});

it('ollama', async () => {
  const client = new Ollama({ host: server.url });
  const options = { ...GREEDY, num_predict: 500 };
  const chat = await client.chat({ model: MODEL, messages, format: SCHEMA, options });
  assertFollows(JSON.parse(chat.message.content));
  const generated = await client.generate({ model: MODEL, prompt: QUESTION, format: 'json', options });
  assert.equal(typeof JSON.parse(generated.response), 'object');
});

it('ai sdk', async () => {
  const provider = createOpenAICompatible({
    name: 'slotstream', baseURL: server.url + '/v1', supportsStructuredOutputs: true });
  const { output } = await generateText({
    model: provider(MODEL), prompt: QUESTION, temperature: 0, maxRetries: 0, maxOutputTokens: 500,
    output: Output.object({ schema: z.object({ city: z.string(), days: z.int() }) }) });
  assertFollows(output);
});
