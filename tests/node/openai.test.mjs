// The npm library `openai` against /v1/chat/completions and /v1/responses.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import OpenAI from 'openai';
import {
  ADD, CONTEXT, FRANCE, GREEDY, MODEL, OSLO, OSLO_ANSWER, OSLO_RESULT, STORY, TOO_LONG, TWO_CITIES,
  WEATHER, golden, startServer,
} from './server.mjs';

const TOOLS = [{ type: 'function', function: WEATHER }];
let server, client;
before(async () => {
  server = await startServer();
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'x', maxRetries: 0 });
});
after(() => server.stop());

const user = (content) => ({ role: 'user', content });

describe('chat completions', () => {
  const create = (messages, more = {}) =>
    client.chat.completions.create({ model: MODEL, messages, ...GREEDY, ...more });

  it('answers, and remembers what it is told', async () => {
    const first = await create([user('My name is Ana.')]);
    assert.equal(first.model, MODEL);
    assert.equal(first.choices[0].finish_reason, 'stop');
    const second = await create(
      [user('My name is Ana.'), first.choices[0].message, user('What is my name?')]);
    assert.equal(second.choices[0].message.content, 'Your name is Ana.');
    assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
  });

  it('streams', async () => {
    const stream = client.chat.completions.stream(
      { model: MODEL, messages: [user(FRANCE)], stream_options: { include_usage: true }, ...GREEDY });
    let text = '';
    stream.on('content', (delta) => { text += delta; });
    const final = await stream.finalChatCompletion();
    assert.equal(text, golden(FRANCE).answer);
    assert.equal(final.choices[0].message.content, text);
    const again = (await create([user(FRANCE)])).usage;
    assert.ok(again.prompt_tokens_details.cached_tokens > 0);
    // What of the prompt was known already is another matter.
    for (const usage of [final.usage, again]) delete usage.prompt_tokens_details;
    assert.deepEqual(final.usage, again);
  });

  it('thinks', async () => {
    const { answer, reasoning } = golden(ADD, true);
    const { message } = (await create([user(ADD)], { reasoning_effort: 'medium' })).choices[0];
    assert.equal(message.content, answer);
    assert.equal(message.reasoning_content.trim(), reasoning);
    let streamed = '';
    for await (const chunk of await create([user(ADD)], { reasoning_effort: 'medium', stream: true })) {
      streamed += chunk.choices[0].delta.reasoning_content ?? '';
    }
    assert.equal(streamed, message.reasoning_content);
  });

  it('runs a tool', async () => {
    const asked = [];
    const runner = client.chat.completions.runTools({
      model: MODEL, messages: [user(OSLO)], ...GREEDY, stream: true,
      tools: [{ type: 'function', function: {
        ...WEATHER, parse: JSON.parse,
        function: ({ city }) => { asked.push(city); return OSLO_RESULT; } } }],
    });
    assert.equal(await runner.finalContent(), OSLO_ANSWER);
    assert.deepEqual(asked, ['Oslo']);
  });

  it('makes of two calls what it makes of them in another order', async () => {
    const head = [user(TWO_CITIES), { role: 'assistant', content: null, tool_calls:
      ['Rome', 'Cairo'].map((city) => ({ id: city, type: 'function', function: {
        name: 'get_weather', arguments: JSON.stringify({ city }) } })) }];
    const results = [
      { role: 'tool', tool_call_id: 'Rome', content: '{"temperature": 21, "sky": "sunny"}' },
      { role: 'tool', tool_call_id: 'Cairo', content: '{"temperature": 33, "sky": "windy"}' }];
    const a = await create([...head, ...results], { tools: TOOLS });
    const b = await create([...head, ...results.reverse()], { tools: TOOLS });
    assert.ok(a.choices[0].message.content);
    assert.deepEqual(a.choices, b.choices);
  });

  it('stops when its client leaves', () => server.assertCancelled(async () => {
    const stream = await create([user(STORY)], { stream: true, temperature: 1.5, max_tokens: 4000 });
    for await (const _ of stream) break;
  }));

  it('says what is wrong', async () => {
    await assert.rejects(create([user(TOO_LONG)]), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.code, 'context_length_exceeded');
      assert.match(error.message, new RegExp(`maximum context length is ${CONTEXT} tokens`));
      return true;
    });
    await assert.rejects(create([user(FRANCE)], { temperature: 'hot' }), { param: 'temperature' });
    await assert.rejects(create([{ role: 'wizard', content: 'x' }]), OpenAI.BadRequestError);
  });
});

describe('responses', () => {
  const create = (input, more = {}) => client.responses.create({ model: MODEL, input, ...GREEDY, ...more });

  it('answers, and remembers what it is told', async () => {
    const first = await create([user('My name is Ana.')]);
    const second = await create(
      [user('My name is Ana.'), ...first.output, user('What is my name?')]);
    assert.equal(second.output_text, 'Your name is Ana.');
  });

  it('streams, with its thoughts', async () => {
    const { answer, reasoning } = golden(ADD, true);
    const stream = client.responses.stream(
      { model: MODEL, input: ADD, reasoning: { effort: 'medium' }, ...GREEDY });
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => { text += delta; });
    const final = await stream.finalResponse();
    assert.equal(text, answer);
    assert.equal(final.output_text, answer);
    assert.equal(final.output[0].content[0].text.trim(), reasoning);
  });

  it('calls a tool and reads its answer', async () => {
    const tools = [{ type: 'function', strict: false, ...WEATHER }];
    const first = await client.responses.stream(
      { model: MODEL, input: OSLO, tools, ...GREEDY }).finalResponse();
    const call = first.output[0];
    assert.equal(call.type, 'function_call');
    assert.deepEqual(JSON.parse(call.arguments), { city: 'Oslo' });
    const second = await create([user(OSLO), ...first.output,
      { type: 'function_call_output', call_id: call.call_id, output: OSLO_RESULT }], { tools });
    assert.equal(second.output_text, OSLO_ANSWER);
  });

  it('stops when its client leaves', () => server.assertCancelled(async () => {
    for await (const event of await create(STORY, { stream: true, temperature: 1.5 })) {
      if (event.type === 'response.output_text.delta') break;
    }
  }));

  it('says what is wrong', async () => {
    await assert.rejects(create(TOO_LONG, { stream: true }), { code: 'context_length_exceeded' });
    await assert.rejects(create('x', { previous_response_id: 'resp_1' }), OpenAI.BadRequestError);
    await assert.rejects(create('x', { max_output_tokens: 'many' }), { param: 'max_output_tokens' });
  });
});
