// A server under test, and what the libraries are asked.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const goldens = JSON.parse(readFileSync(root + 'tests/goldens/miniature_greedy.json'));

export const MODEL = 'any-name-is-served';
export const CONTEXT = 4096;
export const GREEDY = { temperature: 0, presence_penalty: 0 };
export const FRANCE = 'What is the capital of France?';
export const ADD = 'What is 23 + 48?';
export const OSLO = 'What is the weather in Oslo?';
export const OSLO_RESULT = '{"temperature": -3, "sky": "snowy"}';
export const OSLO_ANSWER = 'In Oslo it is snowy and -3 degrees.';
export const TWO_CITIES = 'What is the weather in Rome and in Cairo?';
export const STORY = 'Tell me a story about a fox.';
export const TOO_LONG = 'one two three four '.repeat(2000);
export const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
  additionalProperties: false,
};
export const WEATHER = {
  name: 'get_weather',
  description: 'Get the weather in a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
  },
};

// The miniature's greedy answer to a question without tools or a history, and its reasoning.
export function golden(question, think = false) {
  for (const c of goldens) {
    if (c.messages.length === 1 && c.messages[0].content === question && c.think === think &&
        !c.tools?.length && c.system === null) {
      const end = c.output_text.lastIndexOf('</think>');
      const answer = end < 0 ? c.output_text : c.output_text.slice(end + '</think>'.length);
      return {
        answer: answer.split('<|im_end|>')[0].replace(/^\n+/, ''),
        reasoning: end < 0 ? '' : c.output_text.slice(0, end).trim(),
      };
    }
  }
  throw new Error(`no golden answer to ${question}`);
}

export async function startServer() {
  const child = spawn(process.env.SLOTSTREAM, [
    'serve', '--model', root + 'models/miniature', '--port', '0', '--memory-gb', '1',
    '--max-context', String(CONTEXT)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let url;
  await new Promise((ready, failed) => {
    child.once('exit', (status) => failed(new Error(`slotstream ended with ${status}`)));
    createInterface({ input: child.stderr }).on('line', (line) => {
      url ??= line.match(/^listening on (\S+)/)?.[1];
      if (line === 'ready') ready();
    });
  });
  return {
    url,
    async metric(name) {
      const text = await (await fetch(url + '/metrics')).text();
      return Number(text.match(new RegExp(`^slotstream_${name} (\\S+)$`, 'm'))[1]);
    },
    // `leave` begins an endless answer and leaves in its midst.
    async assertCancelled(leave) {
      const before = await this.metric('generations_cancelled_total');
      await leave();
      for (let tries = 0; await this.metric('generations_cancelled_total') === before; ++tries) {
        if (tries === 600) throw new Error('never cancelled');
        await new Promise((wake) => setTimeout(wake, 50));
      }
    },
    async stop() {
      child.removeAllListeners('exit');
      const status = new Promise((ended) => child.once('exit', ended));
      child.kill('SIGTERM');
      if (await status !== 0) throw new Error(`exit status ${await status}`);
    },
  };
}
